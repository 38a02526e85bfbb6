"""Computes the times of characters from the measured times of words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rhapsode.alignment.words import WordTime

MOST_CHARS = 1024
"""In one message or line: more of them would block the event loop."""


class CharacterTime(NamedTuple):
    """A character, and when it is heard."""

    char: str
    start_s: float
    end_s: float


class CharacterTimes:
    """Computes when each character of a text is heard. The text may grow.

    The times of words are measured. The characters of a word share its time evenly, and the characters between two
    words share the time between them.
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._char = 0
        self._heard_s = self._start_s = start_s

    def add(self, text: str, words: Sequence[WordTime]) -> list[CharacterTime]:
        """Returns the characters up to the last of these words."""
        times: list[CharacterTime] = []
        for word in words:
            times += self._until(text, word.start_char, self._start_s + word.start_s)
            times += self._until(text, word.stop_char, self._start_s + word.end_s)
        return times

    def rest(self, text: str) -> list[CharacterTime]:
        """Returns the characters after the last word, such as a full stop: they take no time."""
        return self._until(text, len(text), self._heard_s)

    def _until(self, text: str, stop: int, end_s: float) -> list[CharacterTime]:
        chars = text[self._char : stop]
        start_s, end_s = self._heard_s, max(self._heard_s, end_s)
        step_s = (end_s - start_s) / len(chars) if chars else 0.0
        self._char, self._heard_s = max(self._char, stop), end_s
        return [CharacterTime(char, start_s + i * step_s, start_s + (i + 1) * step_s) for i, char in enumerate(chars)]


def in_pieces(times: list[CharacterTime]) -> Iterator[list[CharacterTime]]:
    """Yields the times in pieces of at most `MOST_CHARS`."""
    for start in range(0, len(times), MOST_CHARS):
        yield times[start : start + MOST_CHARS]
