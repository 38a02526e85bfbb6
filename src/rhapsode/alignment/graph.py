"""The graph of a known text: the states that a path of the search may be in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

BLANK = 0
FORBIDDEN = np.float32(-1e30)
ROOM = 256
"""How many states a new graph has room for."""


class GraphWindow(NamedTuple):
    """Neighbouring states, as arrays."""

    labels: NDArray[np.int64]
    """The column of each state in the output of the acoustic model."""
    by_two: Floats
    """For each state but the first two: 0 where a path may come from two states before, else `FORBIDDEN`."""
    gaps: NDArray[np.int64]
    """Which of the states are gaps."""


class TextGraph:
    """States in a row: `gap h blank i gap ...`. There is a gap before each word, and one after the last.

    In a gap nothing is said, or something that is not in the text.
    """

    def __init__(self, symbols: int) -> None:
        """`symbols`: columns of the acoustic model. Gaps have a column of their own, after these."""
        self.gap = symbols
        self.words = 0
        self._count = 1
        self._labels = np.full(ROOM, self.gap)
        self._word_of = np.zeros(ROOM, np.int64)
        self._by_two = np.full(ROOM, FORBIDDEN, np.float32)
        self._gaps = np.zeros(ROOM, np.int64)

    def __len__(self) -> int:
        return self._count

    def add(self, letters: Sequence[int]) -> None:
        """Appends a word, as symbols of the acoustic model."""
        if not letters:
            raise ValueError("a word has at least one letter")
        start, stop = self._count, self._count + 2 * len(letters)
        self._labels, self._word_of = _with_room(self._labels, stop), _with_room(self._word_of, stop)
        self._by_two, self._gaps = _with_room(self._by_two, stop), _with_room(self._gaps, self.words + 2)
        self._labels[start:stop:2] = letters
        self._labels[start + 1 : stop : 2] = BLANK
        self._labels[stop - 1] = self.gap
        self._word_of[start : stop - 1] = self.words
        self._word_of[stop - 1] = self.words + 1
        before = self._labels[start - 2 : stop - 2 : 2] if start > 1 else np.r_[BLANK, self._labels[1 : stop - 2 : 2]]
        self._by_two[start:stop] = FORBIDDEN
        self._by_two[start:stop:2][np.asarray(letters) != before] = 0.0
        self.words += 1
        self._gaps[self.words] = stop - 1
        self._count = stop

    def word_of(self, state: int) -> int:
        """Returns the word of a state; of a gap, the word after it."""
        return int(self._word_of[state])

    def is_gap(self, state: int) -> bool:
        return bool(self._labels[state] == self.gap)

    def label(self, state: int) -> int:
        return int(self._labels[state])

    def gap_before(self, gap: int) -> int:
        """Returns the gap that is a word before this one."""
        return int(self._gaps[self._word_of[gap] - 1])

    def letters_after(self, state: int) -> int:
        """Returns how many letters a word has after this one of its states; a gap has none."""
        return 0 if self.is_gap(state) else int(self._gaps[self._word_of[state] + 1] - state) // 2

    def window(self, low: int, high: int) -> GraphWindow:
        """Returns the states from `low` up to `high`."""
        first, last = np.searchsorted(self._gaps[: self.words + 1], (low, high))
        return GraphWindow(self._labels[low:high], self._by_two[low + 2 : high], self._gaps[first:last] - low)


def _with_room(array: NDArray[Any], count: int) -> NDArray[Any]:
    """Returns the array, with room for so many elements."""
    if count <= len(array):
        return array
    return np.concatenate((array, np.zeros(max(count, 2 * len(array)) - len(array), array.dtype)))
