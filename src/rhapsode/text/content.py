"""What a Markdown or HTML document holds, and how it is spoken: sentences, and pauses at headings and gaps."""

from __future__ import annotations

import re
from typing import Protocol

from rhapsode.text.clean import is_speakable
from rhapsode.text.events import Pause, TextEvent
from rhapsode.text.spoken import SpokenRun, joined

BEFORE_HEADING_S, AFTER_HEADING_S, GAP_S = 0.8, 0.5, 0.5

_ENDS = ".!?…:;。！？；：,，、"
_NOT_LAST = "\"'”’»)]}* "
_EAST_ASIAN = ("zh", "ja")
_PIECE = re.compile(r"\s+|\S+(?: \S+)*")


class ContentHandler(Protocol):
    """Receives the content of a document in order."""

    def text(self, text: str, start: int, stop: int | None = None) -> None:
        """Receives text. It is written at `start`, one for one, or it stands for the characters `[start, stop)`."""

    def begin_heading(self) -> None:
        """What follows is a heading."""

    def end_block(self, level: int = 0) -> None:
        """A paragraph, an item of a list or a row of a table ends; with a level from 1, a heading."""

    def end_cell(self) -> None:
        """A cell of a table ends."""

    def gap(self) -> None:
        """Something is left out here, such as a block of code; or a line is drawn."""


class SpokenContent:
    """Makes a document's content into words and pauses. Every block becomes a sentence of its own."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._events: list[TextEvent] = []
        self._runs: list[SpokenRun] = []
        self._blank: SpokenRun | None = None
        """White space that is said before the next word, if there is one."""
        self._pause_s = 0.0
        """A pause before the next word, if there is one."""
        self._last = ""  # the last character of this sentence that is no closing quotation mark or bracket
        self._stop = 0  # where the written characters of the last word end
        self._is_new_cell = False
        self._has_words = False  # since the last pause

    def taken(self) -> list[TextEvent]:
        """Returns what was said since the last call."""
        self._flush()
        events, self._events = self._events, []
        return events

    def text(self, text: str, start: int, stop: int | None = None) -> None:
        for piece in _PIECE.finditer(text):
            first, last = (start + piece.start(), start + piece.end()) if stop is None else (start, stop)
            if not piece[0].isspace():
                self._say(piece[0], first, last, copied=stop is None)
            elif self._last:
                is_copied = stop is None and piece[0][0] == " "
                self._blank = self._blank or SpokenRun(" ", first, first + 1, is_copied)

    def begin_heading(self) -> None:
        self.end_block()
        self._pause(BEFORE_HEADING_S)

    def end_block(self, level: int = 0) -> None:
        if self._last:
            if not ends_sentence(self._last):
                self._runs.append(SpokenRun(full_stop(self._language), self._stop, self._stop, fixed=True))
            self._blank = SpokenRun(" ", self._stop, self._stop, fixed=True)
        self._last, self._is_new_cell = "", False
        if level:
            self._pause(AFTER_HEADING_S)

    def end_cell(self) -> None:
        self._is_new_cell = bool(self._last)

    def gap(self) -> None:
        self.end_block()
        self._pause(GAP_S)

    def _say(self, text: str, start: int, stop: int, copied: bool) -> None:
        if self._pause_s:
            self._flush()
            self._events.append(Pause(self._pause_s))
            self._pause_s, self._has_words = 0.0, False
        elif self._is_new_cell:
            comma = "" if ends_sentence(self._last) else "，" if self._language in _EAST_ASIAN else ","
            self._runs.append(SpokenRun(f"{comma} ", self._stop, self._stop, fixed=True))
        elif self._blank is not None:
            self._runs.append(self._blank)
        self._is_new_cell, self._blank = False, None
        self._runs.append(SpokenRun(text, start, stop, copied))
        self._has_words = self._has_words or is_speakable(text)
        self._last, self._stop = text.rstrip(_NOT_LAST)[-1:] or self._last or text[-1], stop

    def _pause(self, seconds: float) -> None:
        if self._has_words:  # pauses without words between them would add up
            self._pause_s = max(self._pause_s, seconds)

    def _flush(self) -> None:
        self._events += joined(self._runs)
        self._runs = []


def full_stop(language: str) -> str:
    return "。" if language in _EAST_ASIAN else "."


def ends_sentence(char: str) -> bool:
    """Returns whether a voice stops at this character, so that a block that ends with it needs no full stop."""
    return char in _ENDS
