"""Measures how long launches take on a device and how many are in flight, without waiting for any."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter as clock_s

import torch

from rhapsode.device.cuda_calls import CudaEvent


class LaunchTimes:
    """Learns how long launches of one kind take, by their size, and counts those that a GPU has not ended yet.

    On a CPU a launch returns when its work is done, so none is ever in flight.
    """

    NEW = 0.3
    """The weight of a new measurement in the moving average for its size."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._in_flight: deque[tuple[int, CudaEvent, CudaEvent]] = deque()
        self._took_s: dict[int, float] = {}  # by size

    @contextmanager
    def measured(self, size: int) -> Iterator[None]:
        """Times the launch inside the block."""
        if self._device.type != "cuda":
            started_s = clock_s()
            yield
            self._took_s = {size: clock_s() - started_s} if size else self._took_s
            return
        begun, ended = (CudaEvent(self._device, timed=True) for _ in range(2))
        begun.record()
        yield
        ended.record()
        self._in_flight.append((size, begun, ended))

    @property
    def in_flight(self) -> int:
        """How many launches have not ended yet."""
        while self._in_flight and self._in_flight[0][2].is_past():
            size, begun, ended = self._in_flight.popleft()
            took_s = ended.seconds_since(begun)
            before_s = self._took_s.get(size, took_s)
            self._took_s[size] = before_s + self.NEW * (took_s - before_s)
        return len(self._in_flight)

    def expected_s(self, size: int) -> float:
        """Returns how long a launch of this size probably takes; 0 if nothing was measured."""
        return self._took_s.get(size, self._unit_s() * size)

    def most(self, seconds: float) -> int | None:
        """Returns the largest launch size that takes at most this long; None if nothing was measured."""
        unit_s = self._unit_s()
        return int(seconds / unit_s) if unit_s else None

    def _unit_s(self) -> float:
        """Returns the seconds per unit of size of the most efficient launch, usually a large one; 0 if nothing was
        measured."""
        return min((took_s / size for size, took_s in self._took_s.items() if size), default=0.0)
