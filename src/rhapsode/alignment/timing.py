"""Joins the spoken words that were found to the written words they stand for."""

from __future__ import annotations

from collections import deque

from rhapsode.alignment.decided import FoundWord
from rhapsode.alignment.text import SoughtWord
from rhapsode.alignment.words import WordTime
from rhapsode.types import SpeechQuality


class WordTimes:
    """Takes spoken words in their order; returns each written word once the last of its spoken ones is found."""

    def __init__(self, frame_s: float) -> None:
        self._frame_s = frame_s
        self._sought: deque[SoughtWord] = deque()
        self._open: list[tuple[SoughtWord, FoundWord]] = []
        self._words = self._unheard = 0

    def expect(self, word: SoughtWord) -> None:
        """Announces the next spoken word."""
        self._sought.append(word)

    def take(self, found: list[FoundWord]) -> list[WordTime]:
        """Takes the next spoken words that were found; returns the written words that are complete."""
        words: list[WordTime] = []
        for one in found:
            sought = self._sought.popleft()
            self._open.append((sought, one))
            if sought.is_last:
                words.append(self._joined())
        return words

    def quality(self, reached_end: bool) -> SpeechQuality:
        """Returns how much of the text was heard, so far."""
        return SpeechQuality(self._words, self._unheard, reached_end)

    def _joined(self) -> WordTime:
        spoken, self._open = self._open, []
        last = spoken[-1][0]
        heard = [found for _, found in spoken if found.is_heard] or [spoken[0][1]]
        word = WordTime(
            last.text,
            heard[0].start * self._frame_s,
            heard[-1].end * self._frame_s,
            last.start_char,
            last.stop_char,
        )
        self._words += 1
        self._unheard += not word.is_heard
        return word
