"""Turns the states that the search has decided into words with their first and last frames."""

from __future__ import annotations

from typing import NamedTuple

from rhapsode.alignment.graph import Floats, TextGraph

LONGEST_TAIL = 8
"""The most frames that a word continues after its last letter: a CTC model emits a letter where it is clearest."""

LONGEST_LEAD = 8
"""The most frames of sound after silence that belong to the next word: its first letter may be emitted late, or be
misheard."""

LOWEST_SCORE = -5.0
"""A word whose letters have a lower mean log probability was not said: its frames only show where it would be."""


class FoundWord(NamedTuple):
    """A word of the text, and its frames `[start, end)`. A word that was not said has no frames."""

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
    """Finds the words in the decided states, which come frame by frame.

    A word ends in the first frame of near silence after its last letter, where the next word begins, or a few frames
    later. After silence a word begins with the sound. After another word it begins where its first letter is emitted,
    minus the frames by which the acoustic model is late.
    """

    def __init__(self, graph: TextGraph, late: int = 0) -> None:
        """`late`: how many frames after its sound begins the acoustic model emits a letter, in running speech."""
        self._graph = graph
        self._late = late
        self.state = 0
        """The last state that was decided."""
        self.end = 0
        """Where the last word ended."""
        self.words_ended = 0
        self._frame = 0
        self._sound = -1  # the first frame after the last near silence
        self._start = -1  # the first frame of the current word; -1 between words
        self._first = -1  # the frame of its first letter
        self._last = -1  # the frame of its last letter so far
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
        """Ends the audio; returns the remaining words."""
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
