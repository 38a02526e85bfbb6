"""Moments on a device: the host's clock on a CPU, events in the stream on a GPU."""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch


class Clock(Protocol):
    """Marks moments without waiting for them."""

    host: bool
    """Whether it is the host that does the work."""

    def mark(self) -> Any: ...

    def between_s(self, earlier: Any, later: Any) -> float:
        """Only after `wait`, where a device is asynchronous."""

    def wait(self) -> None:
        """Until everything launched so far is done."""

    def capturing(self) -> bool:
        """Whether work is being recorded into a graph instead of running."""


class HostClock:
    host = True

    def mark(self) -> float:
        return time.perf_counter()

    def between_s(self, earlier: float, later: float) -> float:
        return later - earlier

    def wait(self) -> None:
        """The host never runs ahead of itself."""

    def capturing(self) -> bool:
        return False


class DeviceClock:
    host = False

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def mark(self) -> torch.cuda.Event:
        # Inside a graph an external event becomes a node: every replay records it anew.
        event = torch.cuda.Event(enable_timing=True, external=self.capturing())
        event.record()
        return event

    def between_s(self, earlier: torch.cuda.Event, later: torch.cuda.Event) -> float:
        return float(earlier.elapsed_time(later)) / 1e3

    def wait(self) -> None:
        torch.cuda.synchronize(self._device)

    def capturing(self) -> bool:
        return bool(torch.cuda.is_current_stream_capturing())


def clock_for(device: torch.device) -> Clock:
    return DeviceClock(device) if device.type == "cuda" else HostClock()
