"""Clocks that mark moments of a device's work: the host's clock on a CPU, CUDA events on a GPU."""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch


class Clock(Protocol):
    """Marks moments without waiting for the device."""

    def mark(self) -> Any: ...

    def between_s(self, earlier: Any, later: Any) -> float:
        """Returns the time between two marks. On an asynchronous device `wait` must be called before."""

    def wait(self) -> None:
        """Waits until everything launched so far is done."""

    def capturing(self) -> bool:
        """Whether launches are captured into a graph instead of running."""


class HostClock:
    def mark(self) -> float:
        return time.perf_counter()

    def between_s(self, earlier: float, later: float) -> float:
        return later - earlier

    def wait(self) -> None:
        """Returns at once: on a CPU everything launched is done."""

    def capturing(self) -> bool:
        return False


class DeviceClock:
    def __init__(self, device: torch.device) -> None:
        self._device = device

    def mark(self) -> torch.cuda.Event:
        # Inside a graph an external event becomes a node, which every replay records again.
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
