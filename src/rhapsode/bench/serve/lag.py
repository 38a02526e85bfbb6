"""Tells whether the client itself is slow: how late its event loop wakes up, and how busy its process is."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Self

from rhapsode.bench.stats import percentile, rounded

EVERY_S = 0.005
SLOW_MS, BUSY = 5.0, 0.9


class LagMeter:
    """Sleeps again and again, and measures how much longer each sleep took than asked for."""

    def __init__(self) -> None:
        self._lags_s: list[float] = [0.0]
        self._task: asyncio.Task[None] | None = None
        self._started_s = self._cpu_s = self.busy = 0.0

    async def __aenter__(self) -> Self:
        self._started_s, self._cpu_s = time.perf_counter(), time.process_time()
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        wall_s = time.perf_counter() - self._started_s
        self.busy = (time.process_time() - self._cpu_s) / wall_s if wall_s else 0.0

    async def _watch(self) -> None:
        while True:
            due_s = time.perf_counter() + EVERY_S
            await asyncio.sleep(EVERY_S)
            self._lags_s.append(max(0.0, time.perf_counter() - due_s))

    def as_dict(self) -> dict[str, float | bool]:
        p99_ms = percentile(self._lags_s, 99) * 1e3
        return {
            "lag_p50_ms": rounded(percentile(self._lags_s, 50) * 1e3),
            "lag_p99_ms": rounded(p99_ms),
            "lag_max_ms": rounded(max(self._lags_s) * 1e3),
            "busy": rounded(self.busy),
            "slow": p99_ms > SLOW_MS or self.busy > BUSY,
        }
