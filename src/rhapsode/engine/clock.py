"""The clock of the listeners: when each of them runs out of audio."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Seconds = NDArray[np.float64]
clock_s = time.perf_counter


class ListenerClock:
    """For every slot, the moment its listener has played everything it was sent.

    It assumes that a listener plays from the first chunk on. The last stage of a pipeline sends, every stage reads.
    """

    def __init__(self, slots: int) -> None:
        self._dry_at_s = np.zeros(slots + 1, np.float64)

    def now_s(self) -> float:
        return clock_s()

    def open(self, slots: Ints) -> None:
        """New listeners, who have heard nothing yet."""
        self._dry_at_s[slots] = 0.0

    def send(self, slots: Ints, audio_s: float | Seconds) -> None:
        """These listeners have that much more to play."""
        self._dry_at_s[slots] = np.maximum(self._dry_at_s[slots], self.now_s()) + audio_s

    def begun(self, slots: Ints) -> NDArray[np.bool_]:
        """Whether each listener has been sent anything."""
        return self._dry_at_s[slots] > 0

    def left_s(self, slots: Ints) -> Seconds:
        """Seconds of audio each listener still has to play. Negative: silent for so long, or nothing was sent yet."""
        return self._dry_at_s[slots] - self.now_s()
