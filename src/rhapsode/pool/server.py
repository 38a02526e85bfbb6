"""The HTTP server of several models: the edge, which starts the pool and ends it."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any

from rhapsode.config.pool import PoolConfig
from rhapsode.edge.edge import Edge
from rhapsode.edge.fleet import Fleet
from rhapsode.edge.server import EdgeServer
from rhapsode.errors import RhapsodeError
from rhapsode.pool.member import Member
from rhapsode.pool.model_pool import ModelPool
from rhapsode.serve.garbage import collect_rarely
from rhapsode.serve.server import say_stopping

log = logging.getLogger("rhapsode.pool")


class PoolServer(EdgeServer):
    """The edge of a pool: it starts the pool, and drains on the first signal; on a second one it ends at once."""

    def __init__(self, edge: Edge, pool: ModelPool, fleet: Fleet, config: PoolConfig) -> None:
        super().__init__(edge, config)
        edge.is_starting = True
        self._pool_edge, self._pool, self._fleet, self._config = edge, pool, fleet, config
        self._drain_by_s: float | None = None
        self._starting: asyncio.Task[None] | None = None
        self.failed: RhapsodeError | None = None
        """The error of the first model that was wanted from the start and cannot be loaded."""

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        collect_rarely()
        self._starting = asyncio.create_task(self._start(), name="start-pool")

    async def shutdown(self, sockets: Any = None) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait((self._starting,))
        await self._pool.stop(at_once=self._pool_edge.in_flight > 0)  # what still runs is not to be waited for
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._drain_by_s is None:
            say_stopping(self._pool_edge.in_flight)
            self._pool_edge.is_draining = True
            self._drain_by_s = time.monotonic() + self._config.server.drain_timeout_s
        else:
            self.should_exit = True
            self.force_exit = sig == signal.SIGINT

    async def on_tick(self, counter: int) -> bool:
        self.should_exit |= self._drain_by_s is not None and time.monotonic() > self._drain_by_s
        return await super().on_tick(counter)

    async def _start(self) -> None:
        try:
            for name in self._config.loading_order():
                await self._pool.load(name)
                await self._fleet.models[name].poll()
            if too_small := too_little_memory(self._config, self._pool.members):
                log.warning(too_small)
            self._pool.watch()
            self._pool_edge.is_starting = False
        except RhapsodeError as error:
            self.failed, self.should_exit = error, True


def too_little_memory(config: PoolConfig, members: Mapping[str, Member]) -> str:
    """Returns a warning if pinned models alone take more than `memory_bytes`; else nothing."""
    pinned = sum(member.memory_bytes for member in members.values() if member.is_pinned)
    if config.memory_bytes is None or pinned <= config.memory_bytes:
        return ""
    given, taken = (f"{size / 1e9:.1f} GB" for size in (config.memory_bytes, pinned))
    return f"memory_bytes is {given}, and the pinned models alone take {taken}: all others have to make room"
