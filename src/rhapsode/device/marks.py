"""Marks between the frames of a stream: things that happen after one frame and before the next."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class SegmentEnd:
    """The frames before this mark are complete: later stages flush their look-ahead and start with fresh state."""


@dataclass(frozen=True)
class Silence:
    """The listener hears exact silence of this length here."""

    seconds: float
    is_pause: bool = False
    """The text asks for this pause: its length does not change with the speed."""


@dataclass(frozen=True)
class PaceChange:
    """The audio after this mark is to be played this many times as fast."""

    pace: float


@dataclass(frozen=True)
class SpeakerChange:
    """The audio after this mark is said by this voice of a dialogue."""

    speaker: int


Mark = SegmentEnd | Silence | PaceChange | SpeakerChange


class Marks:
    """The marks of every slot, in order. One stage adds them, the next one takes them out."""

    def __init__(self, slots: int) -> None:
        self._marks: list[deque[tuple[int, Mark]]] = [deque() for _ in range(slots + 1)]
        self._lock = threading.Lock()
        self.next_at: NDArray[np.int64] = np.full(slots + 1, NEVER)
        """For each slot, the number of frames before its next mark; `NEVER` without a mark."""

    def clear(self, slots: NDArray[np.int64]) -> None:
        with self._lock:
            for slot in slots.tolist():
                self._marks[slot].clear()
            self.next_at[slots] = NEVER

    def add(self, slot: int, at: int, mark: Mark) -> None:
        with self._lock:
            self._marks[slot].append((at, mark))
            self.next_at[slot] = self._marks[slot][0][0]

    def take(self, slot: int) -> Mark:
        """Removes and returns the slot's next mark."""
        with self._lock:
            marks = self._marks[slot]
            _, mark = marks.popleft()
            self.next_at[slot] = marks[0][0] if marks else NEVER
            return mark
