"""The words of a request's text that the aligner looks for in its audio."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rhapsode.alignment.abbreviations import said
from rhapsode.alignment.letters import spelled
from rhapsode.errors import InvalidRequest
from rhapsode.text.events import Bookmark, Pause, TextEvent
from rhapsode.text.front_end import FrontEnd, TextSettings
from rhapsode.text.normalise.language import LANGUAGES, language_of_letter
from rhapsode.text.spoken import RunBuffer, SpokenRun

LONGEST_WORD = 512
"""Longer words are cut, so that a text without blanks is read as it arrives, not all at once at its end."""
_WORD = re.compile(rf"[^\s—–…]{{1,{LONGEST_WORD}}}")
_SIGNS = ".,;:!?…()[]{}<>\"“”„‘’'«»¿¡*_~|"


class SoughtWord(NamedTuple):
    """A spoken word to look for: its letters, and the written word that it is part of."""

    letters: str
    text: str
    start_char: int
    stop_char: int
    is_last: bool
    """Whether it is the last spoken word of its written word: "$5" is said in two words."""


SoughtItem = SoughtWord | Bookmark | Pause
"""An item of a request's text: a word to look for, a bookmark or a pause."""


def unknown_language(language: str, known: str) -> InvalidRequest:
    """Returns the error for text that the acoustic model cannot follow."""
    return InvalidRequest(
        f"word timestamps are measured for '{known}' here, not for '{language}': name a CTC checkpoint of that "
        f"language in the deployment, `alignment: {{model: FOLDER, language: {language}}}`.",
        param="word_timestamps",
    )


class WordText:
    """Turns written text, which may arrive in pieces, into the spoken words to look for.

    Numbers and the like are always written out here, even if the model gets digits: they are spoken as words.
    """

    def __init__(self, settings: TextSettings, symbols: Sequence[str], language: str) -> None:
        """`symbols` and `language`: those of the acoustic model."""
        if settings.language not in (None, language):
            raise unknown_language(settings.language or "", language)
        self._language = language
        self._is_judged = settings.language is not None
        self._known = frozenset(symbols)
        is_normalised = language in LANGUAGES  # else the words are looked for as they are written
        self._told = replace(settings, language=language, normalise=is_normalised, phonemes=False)
        self._front_end = FrontEnd(self._told)
        self._start = 0  # where the document that is read begins in all that was written
        self._buffer = RunBuffer()
        self._written = ""
        self._items: list[SoughtItem] = []
        self._lock = threading.Lock()
        self._closed = False

    def push(self, text: str) -> None:
        """Takes the next piece of the text, cut anywhere."""
        self.check(text)
        self._written += text
        self._read(self._front_end.push(text))

    def next_document(self) -> None:
        """Ends a document, such as a segment of a dialogue; another one begins on the next line."""
        self._read(self._front_end.close())
        with self._lock:
            self._items += self._ended(len(self._buffer.text))
        self._written += "\n"
        self._start = len(self._written)
        self._front_end = FrontEnd(self._told)

    def close(self) -> None:
        """Ends the text. A last word that was held back, because it could have continued, is now complete."""
        self._read(self._front_end.close())
        with self._lock:
            self._items += self._ended(len(self._buffer.text))
            self._closed = True

    def take(self) -> tuple[list[SoughtItem], bool]:
        """Returns the words and marks since the last call, and whether they are the last ones. Thread-safe."""
        with self._lock:
            items, self._items = self._items, []
            return items, self._closed

    def check(self, text: str) -> None:
        """Raises if the first letter of the text is from another script than the acoustic model's language.

        Latin letters are accepted for every language.
        """
        if not self._is_judged and (letter := next(filter(str.isalpha, text), None)):
            language = language_of_letter(letter)
            if language not in ("en", self._language):
                raise unknown_language(language, self._language)
            self._is_judged = True

    def accept_all(self) -> None:
        """From now on text of any script is accepted; its words are not found."""
        self._is_judged = True

    def _read(self, events: list[TextEvent]) -> None:
        with self._lock:
            for event in events:
                if isinstance(event, SpokenRun):
                    at = self._start
                    self._buffer.append(event._replace(start=event.start + at, stop=event.stop + at))
                    continue
                self._items += self._ended(len(self._buffer.text))  # a pause or a mark ends the words before it
                if isinstance(event, Bookmark):
                    self._items.append(event._replace(at=event.at + self._start))
                elif isinstance(event, Pause):
                    self._items.append(event)
            self._items += self._ended(self._last_blank())

    def _last_blank(self) -> int:
        """Returns where the last word ends that is complete or too long. All words of a run that is not copied belong
        together."""
        end = at = 0
        for run in self._buffer.runs(0, len(self._buffer.text)):
            if run.copied or run.text.isspace():
                words = run.text.rstrip()
                cut = len(words) - len(re.split(r"\s", words)[-1]) if words == run.text else len(run.text)
                end = at + cut if cut else end
            at += len(run.text)
            while at - end >= LONGEST_WORD:
                end = end + LONGEST_WORD if run.copied else at
        return end

    def _ended(self, count: int) -> list[SoughtWord]:
        """Removes the first `count` characters, which are whole words, from the buffer; returns the words."""
        found: list[SoughtWord] = []
        for match in _WORD.finditer(self._buffer.text[:count]):
            parts = spelled(self._said(match[0]), self._known)
            start, stop = self._written_part(*match.span()) if parts else (0, 0)
            for letters in parts:
                if found and start < found[-1].stop_char:  # more of the same written word
                    before = found[-1]
                    start, stop = min(start, before.start_char), max(stop, before.stop_char)
                    found[-1] = before._replace(is_last=False)
                found.append(SoughtWord(letters, self._written[start:stop], start, stop, is_last=True))
        self._buffer.drop(count)
        return found

    def _said(self, word: str) -> str:
        return said(word.strip(_SIGNS)) if self._language == "en" else word

    def _written_part(self, first: int, last: int) -> tuple[int, int]:
        """Returns the written characters of a word without the signs around it."""
        while self._is_sign(first):
            first += 1
        while self._is_sign(last - 1):
            last -= 1
        return self._buffer.span(first, last)

    def _is_sign(self, at: int) -> bool:
        (run,) = self._buffer.runs(at, at + 1)
        return run.copied and run.text in _SIGNS
