"""Joins found spoken words into the written words they stand for, and finds the times of bookmarks."""

from __future__ import annotations

from collections import deque

from rhapsode.alignment.decided import FoundWord
from rhapsode.alignment.text import SoughtItem, SoughtWord
from rhapsode.alignment.words import BookmarkTime, WordTime
from rhapsode.text.events import Bookmark
from rhapsode.types import SpeechQuality


class WordTimes:
    """Takes spoken words in their order; returns each written word once the last of its spoken ones is found.

    A bookmark is reached where the next word begins. Where a pause or the end of the text follows it, it is reached
    where the word before it ends.
    """

    def __init__(self, frame_s: float) -> None:
        self._frame_s = frame_s
        self._sought: deque[SoughtItem] = deque()
        self._open: list[tuple[SoughtWord, FoundWord]] = []
        self._words = self._unheard = 0
        self._end_s = 0.0  # of the last word
        self._reached: list[BookmarkTime] = []

    def expect(self, item: SoughtItem) -> None:
        """Adds the next item of the text."""
        self._sought.append(item)

    def take(self, found: list[FoundWord]) -> list[WordTime]:
        """Takes the next spoken words that were found; returns the written words that are complete."""
        words: list[WordTime] = []
        for one in found:
            sought = self._next_word(one.start * self._frame_s)
            self._open.append((sought, one))
            if sought.is_last:
                words.append(self._joined())
        return words

    def bookmarks(self, is_over: bool) -> list[BookmarkTime]:
        """Returns the bookmarks that were reached since the last call; `is_over`: all words are said."""
        if is_over:
            self._pass_bookmarks(None)
        reached, self._reached = self._reached, []
        return reached

    def quality(self, reached_end: bool) -> SpeechQuality:
        """Returns how much of the text was heard, so far."""
        return SpeechQuality(self._words, self._unheard, reached_end)

    def _next_word(self, start_s: float) -> SoughtWord:
        """Takes the next spoken word, which begins here, and passes the bookmarks before it."""
        self._pass_bookmarks(start_s)
        word = self._sought.popleft()
        assert isinstance(word, SoughtWord)
        return word

    def _pass_bookmarks(self, start_s: float | None) -> None:
        """Gives the bookmarks before the next word their time; `start_s`: where that word begins."""
        passed: list[Bookmark] = []
        while self._sought and not isinstance(self._sought[0], SoughtWord):
            item = self._sought.popleft()
            if isinstance(item, Bookmark):
                passed.append(item)
            else:
                self._reach(passed, self._end_s)
                passed = []
        self._reach(passed, self._end_s if start_s is None else start_s)

    def _reach(self, bookmarks: list[Bookmark], time_s: float) -> None:
        self._reached += [BookmarkTime(mark.name, time_s, mark.at) for mark in bookmarks]

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
        self._end_s = word.end_s
        self._words += 1
        self._unheard += not word.is_heard
        return word
