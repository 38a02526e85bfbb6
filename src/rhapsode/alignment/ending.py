"""Finds where speech should end: after its last word, if near silence or other words follow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rhapsode.alignment.decided import FoundWord
from rhapsode.alignment.graph import Floats

QUIET_FRAMES = 20
"""Speech is ended after this many frames of near silence behind the last word."""
KEPT_FRAMES = 10
"""How many of these silent frames are kept."""
OTHER_FRAMES = 5
"""Speech is ended after this many frames of other letters behind the last word."""
AFTER_WORD = 3
"""Frames after the last word that may still belong to it."""
SURE = ((0.1, -2.0),)
LIKELY = ((0.0, -3.0), *SURE, (0.25, -0.5))
"""Pairs of limits: the highest share of words that were not heard, and the lowest mean log probability of the last
word's letters. The more words were not heard, the clearer the last word must be. Near silence ends speech if a pair of
`LIKELY` holds. Other words, which may be words of the text, end it only if a pair of `SURE` holds."""


class EndWatch:
    """Watches the frames of a request, and returns the frame after which speech should end."""

    def __init__(self) -> None:
        self._quiet: list[bool] = []
        self._other: list[bool] = []
        self._levels: list[float] = []
        self._first = 0  # the frame that the lists begin with
        self._words = self._unheard = 0
        self._last: FoundWord | None = None

    def take(self, log_probs: Floats, quiet: NDArray[np.bool_], levels: Floats, found: list[FoundWord]) -> None:
        """Takes the next frames, and the words that were decided with them."""
        self._other += (log_probs.argmax(1) > 1).tolist()  # neither blank nor space
        self._quiet += quiet.tolist()
        self._levels += levels.tolist()
        self._words += len(found)
        self._unheard += sum(not word.is_heard for word in found)
        self._last = found[-1] if found else self._last

    def end(self, said_at: int | None) -> int | None:
        """Returns the frame where speech ends; `None` if it does not end yet.

        `said_at` is the frame where the last word ends, once that is known.
        """
        if said_at is None:
            self._forget(len(self._quiet) - 2 * QUIET_FRAMES)
            return None
        first = max(0, said_at - self._first)
        end = self._quiet_end(first) if self._is(LIKELY) else None
        return self._other_end(first) if end is None and self._is(SURE) else end

    def _is(self, sure: Sequence[tuple[float, float]]) -> bool:
        """Whether the alignment holds one of these pairs of limits: `SURE` or `LIKELY`."""
        last, share = self._last, self._unheard / max(1, self._words)
        if last is None or not last.is_heard:
            return False
        return any(share <= most and last.score >= lowest for most, lowest in sure)

    def _quiet_end(self, first: int) -> int | None:
        run = 0
        for index in range(first, len(self._quiet)):
            run = run + 1 if self._quiet[index] else 0
            if run == QUIET_FRAMES:
                return self._first + index + 1 - QUIET_FRAMES + KEPT_FRAMES
        return None

    def _other_end(self, first: int) -> int | None:
        """Returns the quietest frame between the last word and the other words that follow."""
        after = [index for index in range(first + AFTER_WORD, len(self._other)) if self._other[index]]
        if len(after) < OTHER_FRAMES:
            return None
        levels = self._levels[first : after[0] + 1]
        return self._first + first + int(np.argmin(levels)) + 1

    def _forget(self, count: int) -> None:
        if count > 0:
            del self._quiet[:count], self._other[:count], self._levels[:count]
            self._first += count
