"""The clock of the listeners: when each of them runs out of audio."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Seconds = NDArray[np.float64]
clock_s = time.perf_counter


class ListenerClock:
    """For every slot, the moment at which its listener has played all audio it was sent.

    It assumes that a listener plays from the first chunk on. The last stage of a pipeline updates the clock, and every
    stage reads it.
    """

    def __init__(self, slots: int) -> None:
        self._dry_at_s = np.zeros(slots + 1, np.float64)

    def now_s(self) -> float:
        return clock_s()

    def open(self, slots: Ints) -> None:
        """Resets these slots for new listeners, who have heard nothing yet."""
        self._dry_at_s[slots] = 0.0

    def send(self, slots: Ints, audio_s: float | Seconds) -> None:
        """Notes that these listeners have this much more audio to play."""
        self._dry_at_s[slots] = np.maximum(self._dry_at_s[slots], self.now_s()) + audio_s

    def begun(self, slots: Ints) -> NDArray[np.bool_]:
        """Returns, for each listener, whether any audio was sent."""
        return self._dry_at_s[slots] > 0

    def left_s(self, slots: Ints) -> Seconds:
        """Returns the seconds of audio each listener has left. Negative: out of audio so long, or nothing was sent."""
        return self._dry_at_s[slots] - self.now_s()
