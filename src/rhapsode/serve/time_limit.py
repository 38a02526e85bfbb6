"""Ends a request that takes too long to be spoken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rhapsode.serve.response.delivery import Playback


class TimeLimit:
    """Calls back once a playback has been busy for too long; the time it waits for its client does not count."""

    def __init__(self, playback: Playback, limit_s: float, on_late: Callable[[Playback], None]) -> None:
        self._playback = playback
        self._limit_s = limit_s
        self._on_late = on_late
        self._timer = asyncio.get_running_loop().call_later(limit_s, self._check)

    def cancel(self) -> None:
        self._timer.cancel()

    def _check(self) -> None:
        left_s = self._limit_s - self._playback.busy_s
        if left_s > 0:
            self._timer = asyncio.get_running_loop().call_later(left_s, self._check)
        elif self._playback.speech.outcome is None:
            self._on_late(self._playback)
