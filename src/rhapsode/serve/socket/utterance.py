"""Splits text that arrives over time into the requests that speak it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from rhapsode.engine import Speech
from rhapsode.serve.request.intake import Order
from rhapsode.text.clean import is_speakable, well_formed
from rhapsode.text.events import Pause, TextEvent
from rhapsode.text.markup import InputType, MarkupReader, reader_of
from rhapsode.text.spoken import SpokenRun
from rhapsode.text.stream import SentenceStream


@dataclass
class Piece:
    """The text of one request, which may grow before and while it is spoken."""

    text: str = ""
    closed: bool = False
    is_plain: bool = False
    """Whether it is plain text already, whatever the input type of the request is."""
    speech: Speech | None = None
    """Set once the request has been submitted."""

    def append(self, text: str) -> None:
        if self.speech is not None:
            self.speech.append(text)
        self.text += text

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if self.speech is not None:
                self.speech.finish_text()


@dataclass
class Utterance:
    """The text between one `input.done` and the next.

    If the family accepts text while it speaks, a piece grows until it is flushed; otherwise each sentence is a piece,
    or a whole document of SSML.
    """

    index: int
    by_sentence: bool
    language: str = "en"
    input_type: InputType = "text"
    whole: bool = False
    """The text is spoken in one piece when it is complete: a document that the family cannot take in pieces."""
    transport: Literal["binary", "base64"] = "binary"
    order: Order | None = None
    """The settings when it began: those of the session may change while it waits to be spoken."""
    done: bool = False
    spoken: int = 0
    chars: int = 0
    pieces: deque[Piece] = field(default_factory=deque)
    _sentences: SentenceStream | None = None
    _markup: MarkupReader | None = None
    _half: str = ""
    _unspoken: str = ""

    def append(self, text: str) -> None:
        """Adds text. A character may be split between the end of this text and the start of the next."""
        text = self._half + text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = well_formed(text.removesuffix(self._half))
        if self.whole:
            self._unspoken += text
            return
        if self.by_sentence:
            self._push_sentences(text)
            return
        if not self.pieces or self.pieces[-1].closed:
            self._unspoken += text
            if not is_speakable(text):
                return  # nothing to say yet
            text, self._unspoken = self._unspoken, ""
            self.pieces.append(Piece())
        self.pieces[-1].append(text)

    def flush(self) -> None:
        """Closes all text so far, so that it is spoken without waiting for more."""
        if self.whole and self._unspoken.strip():
            self.pieces.append(Piece(self._unspoken, closed=True))
        self._half = self._unspoken = ""
        if self.by_sentence:
            self._read(self._markup.close() if self._markup is not None else [])
            self._end_sentence()
            self._markup = None
        elif self.pieces:
            self.pieces[-1].close()

    def _push_sentences(self, text: str) -> None:
        self._markup = self._markup or reader_of(self.input_type, self.language)
        self._read(self._markup.push(text) if self._markup is not None else [SpokenRun(text, 0, len(text))])
        self._take_sentences()

    def _read(self, events: list[TextEvent]) -> None:
        for event in events:
            if isinstance(event, SpokenRun):
                self._sentences = self._sentences or SentenceStream(self.language)
                self._sentences.push(event.text)
            elif isinstance(event, Pause):
                self._end_sentence()

    def _end_sentence(self) -> None:
        if self._sentences is not None:
            self._sentences.close()
            self._take_sentences()
            self._sentences = None

    def _take_sentences(self) -> None:
        while self._sentences is not None and (sentence := self._sentences.pop()) is not None:
            if is_speakable(sentence):
                self.pieces.append(Piece(sentence, closed=True, is_plain=True))
