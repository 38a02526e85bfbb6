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
    """The frames before are complete: look-ahead is flushed, and the state of later stages starts anew."""


@dataclass(frozen=True)
class Silence:
    """Exact silence of this length is heard here."""

    seconds: float
    is_pause: bool = False
    """The text asks for it: it is so long at any speed."""


@dataclass(frozen=True)
class PaceChange:
    """What follows is to be played so many times as fast."""

    pace: float


@dataclass(frozen=True)
class SpeakerChange:
    """What follows is said by this voice of a dialogue."""

    speaker: int


Mark = SegmentEnd | Silence | PaceChange | SpeakerChange


class Marks:
    """The marks of every slot, in order. One stage adds them, the next one takes them out."""

    def __init__(self, slots: int) -> None:
        self._marks: list[deque[tuple[int, Mark]]] = [deque() for _ in range(slots + 1)]
        self._lock = threading.Lock()
        self.next_at: NDArray[np.int64] = np.full(slots + 1, NEVER)
        """The frame before which each slot's next mark stands."""

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
