"""Reads words with their first and last frames off the states that the search has decided."""

from __future__ import annotations

from typing import NamedTuple

from rhapsode.alignment.graph import Floats, TextGraph

LONGEST_TAIL = 8
"""Frames that a word may sound on after its last letter: a CTC model names a letter where it is clearest."""

LONGEST_LEAD = 8
"""Frames of sound after silence that are part of the next word: its first letter may be named late, or misheard."""

LOWEST_SCORE = -5.0
"""Mean log probability of the letters of a word, below which it was not said: its frames are only where it would be."""


class FoundWord(NamedTuple):
    """A word of the text, and its frames `[start, end)`. A word that was not said has none."""

    number: int
    """Which word of the text it is."""
    start: int
    end: int
    score: float = 0.0
    """Mean log probability of its letters."""

    @property
    def is_heard(self) -> bool:
        return self.end > self.start


class DecidedPath:
    """Takes the state of each frame, in order.

    A word ends in the first frame of near silence after its last letter, where the next word begins, or a few frames
    later. After silence it begins with the sound, and after another word where its first letter is named, less the
    frames by which the acoustic model is late.
    """

    def __init__(self, graph: TextGraph, late: int = 0) -> None:
        """`late`: frames by which the acoustic model names a letter after its sound begins, in running speech."""
        self._graph = graph
        self._late = late
        self.state = 0
        """The last one decided."""
        self.end = 0
        """Where the last word ended."""
        self.words_ended = 0
        self._frame = 0
        self._sound = -1  # the first frame after the last near silence
        self._start = -1  # of the word that is being said, or sounds on
        self._first = -1  # its first letter
        self._last = -1  # its last letter so far
        self._total = 0.0

    def take(self, state: int, columns: Floats, is_quiet: bool) -> list[FoundWord]:
        """Takes the state of the next frame; returns the words that have ended."""
        self.state = state = max(state, self.state)  # what is decided stays so
        self._sound = self._frame + 1 if is_quiet else self._sound
        graph, found = self._graph, []
        word, is_gap = graph.word_of(state), graph.is_gap(state)
        is_past = self._start >= 0 and word > self.words_ended  # its last letter
        follows = not is_gap or word > self.words_ended + 1
        is_joined = is_past and not is_gap and not is_quiet  # the next word follows without a pause
        if is_past and (is_quiet or follows or self._frame > self._last + LONGEST_TAIL):
            found.append(self._ended(max(self._start + 1, self._frame - self._late) if is_joined else self._frame))
        while self.words_ended < word and self._start < 0:
            found.append(self._ended(self._frame))
        if not is_gap:
            if self._start < 0:
                is_led = max(self.end, self._frame - LONGEST_LEAD) <= self._sound <= self._frame and not is_joined
                self._start = self._sound if is_led else max(self._frame - self._late, self.end)
                self._first, self._total = self._frame, 0.0
            self._last = self._frame
            self._total += float(columns[graph.label(state)])
        self._frame += 1
        return found

    def finish(self) -> list[FoundWord]:
        """Ends the audio; returns the rest of the words."""
        found = [self._ended(self._frame)] if self._start >= 0 else []
        while self.words_ended < self._graph.words:
            found.append(self._ended(self._frame))
        return found

    def _ended(self, frame: int) -> FoundWord:
        """Returns the current word, which ends before this frame; without a start it was not said."""
        index, start = self.words_ended, self._start
        score = self._total / (self._last + 1 - self._first) if start >= 0 else 0.0
        self.words_ended += 1
        self._start = -1
        if start < 0 or score < LOWEST_SCORE:
            return FoundWord(index, self.end, self.end, score)
        self.end = frame
        return FoundWord(index, start, frame, score)
