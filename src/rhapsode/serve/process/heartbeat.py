"""Notices that the engine's process is silent: stopped, or busy for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil

BEATS = 5
"""How many beats without a message make a process silent."""
LOADING_S = 120.0
"""How long a process may be silent while it loads: imports and captures can keep Python's lock for long."""


def beat_s(silence_s: float) -> float:
    """Returns how often a process must send something, so that silence is noticed after `silence_s`."""
    return silence_s / BEATS


class Heartbeat:
    """Counts the beats since the other process was last heard.

    It counts its own beats instead of seconds: when this process stood still itself, as on a machine that slept, that
    is one beat, and nobody is blamed for it.
    """

    def __init__(self, silence_s: float, on_silence: Callable[[float], None]) -> None:
        """`on_silence` is called once, with the seconds of silence that were allowed."""
        self.every_s = beat_s(silence_s)
        self._on_silence = on_silence
        self._allowed_s = max(LOADING_S, silence_s)
        self._silence_s = silence_s
        self._missed = 0
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts to count, in the running event loop."""
        self._running = asyncio.create_task(self._run(), name="heartbeat")

    def heard(self) -> None:
        self._missed = 0

    def loaded(self) -> None:
        """Says that the process has loaded its model: from now on it must be heard all the time."""
        self._allowed_s = self._silence_s

    def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            self._running = None

    def beat(self) -> bool:
        """Counts one beat; returns whether the process is silent."""
        self._missed += 1
        return self._missed > ceil(self._allowed_s / self.every_s)

    async def _run(self) -> None:
        while not self.beat():
            await asyncio.sleep(self.every_s)
        self._running = None
        self._on_silence(self._allowed_s)
