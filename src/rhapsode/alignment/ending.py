"""Finds where speech should have ended: after its last word, where it goes on in near silence or in other words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rhapsode.alignment.decided import FoundWord
from rhapsode.alignment.graph import Floats

QUIET_FRAMES = 20
"""Near silence after the last word, until speech is ended."""
KEPT_FRAMES = 10
"""Of that silence, those that are kept."""
OTHER_FRAMES = 5
"""Frames of other letters after the last word, until speech is ended."""
AFTER_WORD = 3
"""Frames after the last word that may be its own end."""
LOWEST_LAST_SCORE = -2.0
"""Mean log probability of the last word's letters: less is not certain enough to end there."""
MOST_UNHEARD = 0.1
"""Of all words. Where more are not heard, the alignment cannot be relied upon."""


class EndWatch:
    """Takes what is heard of each frame; tells the frame after which nothing of the text is left to say."""

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
        """Returns where speech ends, if it is to end now; `said_at`: where the last word ends, once that is known."""
        if said_at is None:
            self._forget(len(self._quiet) - 2 * QUIET_FRAMES)
            return None
        if self._last is None or not self._last.is_heard or self._last.score < LOWEST_LAST_SCORE:
            return None
        if self._unheard > MOST_UNHEARD * self._words:
            return None
        first = max(0, said_at - self._first)
        return self._quiet_end(first) or self._other_end(first)

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
