"""Replaces words by phonemes, in text that arrives in pieces, cut anywhere."""

from __future__ import annotations

import re
from collections import deque
from functools import cache
from typing import NamedTuple

from rhapsode.text.normalise.window import Undecided
from rhapsode.text.phonemes.sentence import Sentence
from rhapsode.text.phonemes.sounds import respelled
from rhapsode.text.phonemes.table import read_table
from rhapsode.text.phonemes.tagger import Tagger
from rhapsode.text.phonemes.words import Pronunciation
from rhapsode.text.spoken import RunBuffer, SpokenRun, joined

LONGEST_WORD = 60
"""Longer words stay in letters, and are passed on as they arrive."""
MOST_WORDS = 100
"""A sentence ends after this many words at the latest."""
_WORD = re.compile(r"\S+")
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*$")


@cache
def _tools() -> tuple[Tagger, Pronunciation]:
    table = read_table()
    return Tagger(table), Pronunciation(table)


class _Pending(NamedTuple):
    """A word that is not passed on yet: its place in all text, and in its sentence, if it may have phonemes."""

    start: int
    stop: int
    sentence: Sentence | None = None
    number: int = 0


class PhonemeStream:
    """Push runs of text, get runs back. A word is passed on when its phonemes are certain.

    Words that the lexicon lacks stay in letters. The result does not depend on how the text is cut.
    """

    def __init__(self) -> None:
        self._buffer = RunBuffer()
        self._passed = 0  # characters that have left the buffer
        self._seen = 0  # characters that are in `_pending`, or blank
        self._pending: deque[_Pending] = deque()
        self._sentence = Sentence(*_tools())
        self._in_long = False

    def push(self, run: SpokenRun) -> list[SpokenRun]:
        """Takes a run; returns what is certain now."""
        self._buffer.append(run)
        self._collect(closed=False)
        return self._advance()

    def close(self) -> list[SpokenRun]:
        """Returns the rest. No later text continues the last sentence."""
        self._collect(closed=True)
        self._end_sentence()
        self._in_long = False
        return self._advance()

    def _collect(self, closed: bool) -> None:
        """Takes complete words from the buffer into sentences."""
        text = self._buffer.text
        for found in _WORD.finditer(text, self._seen - self._passed):
            start, stop = self._passed + found.start(), self._passed + found.end()
            self._in_long = self._in_long and start == self._seen
            goes_on = found.end() == len(text) and not closed
            if self._in_long or len(found[0]) > LONGEST_WORD:
                self._end_sentence()
                self._pending.append(_Pending(start, stop))
                self._in_long = goes_on
            elif goes_on:
                self._seen = start
                return
            else:
                self._take(found[0], start, stop)
            self._seen = stop
        if not self._in_long or text[-1:].isspace():
            self._in_long = False
            self._seen = self._passed + len(text)

    def _take(self, word: str, start: int, stop: int) -> None:
        self._sentence.append(word)
        self._pending.append(_Pending(start, stop, self._sentence, len(self._sentence) - 1))
        if _SENTENCE_END.search(word) or len(self._sentence) == MOST_WORDS:
            self._end_sentence()

    def _end_sentence(self) -> None:
        self._sentence.closed = True
        self._sentence = Sentence(*_tools())

    def _advance(self) -> list[SpokenRun]:
        buffer, found, at = self._buffer, list[SpokenRun](), 0
        while self._pending:
            word = self._pending[0]
            first, last = word.start - self._passed, word.stop - self._passed
            try:
                phonemes = word.sentence.phonemes(word.number) if word.sentence is not None else None
            except Undecided:
                break
            found += buffer.runs(at, first)
            if phonemes is None:
                found += buffer.runs(first, last)
            else:
                found.append(SpokenRun(respelled(phonemes), *buffer.span(first, last), fixed=True))
            at = last
            self._pending.popleft()
        if not self._pending:
            stop = self._seen - self._passed
            found += buffer.runs(at, stop)
            at = stop
        self._passed += at
        buffer.drop(at)
        return joined(found)
