"""Computes the times of characters from the measured times of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rhapsode.alignment.words import WordTime


class CharacterTimes:
    """Computes when each character of a text is heard.

    The times of words are measured. The characters of a word share its time evenly, and the characters between two
    words share the time between them.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._char = 0
        self._heard_s = 0.0

    def add(self, words: Sequence[WordTime]) -> dict[str, Any] | None:
        """Returns the characters up to the last of these words, in ElevenLabs' shape; None if there are none."""
        times: list[tuple[str, float, float]] = []
        for word in words:
            times += self._until(word.start_char, word.start_s)
            times += self._until(word.stop_char, word.end_s)
        return _alignment(times) if times else None

    def rest(self) -> dict[str, Any] | None:
        """Returns the characters after the last word, such as a full stop: they take no time."""
        times = self._until(len(self._text), self._heard_s)
        return _alignment(times) if times else None

    def _until(self, stop: int, end_s: float) -> list[tuple[str, float, float]]:
        chars = self._text[self._char : stop]
        start_s, end_s = self._heard_s, max(self._heard_s, end_s)
        step_s = (end_s - start_s) / len(chars) if chars else 0.0
        self._char, self._heard_s = max(self._char, stop), end_s
        return [(char, start_s + i * step_s, start_s + (i + 1) * step_s) for i, char in enumerate(chars)]


def _alignment(times: Sequence[tuple[str, float, float]]) -> dict[str, Any]:
    return {
        "characters": [char for char, _, _ in times],
        "character_start_times_seconds": [round(start_s, 3) for _, start_s, _ in times],
        "character_end_times_seconds": [round(end_s, 3) for _, _, end_s in times],
    }
