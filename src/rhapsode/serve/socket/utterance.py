"""Text that arrives in pieces, as the requests it is spoken by."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from rhapsode.engine import Speech
from rhapsode.text.stream import SentenceStream


@dataclass
class Piece:
    """One request: text that may still grow, before and while it is spoken."""

    text: str = ""
    closed: bool = False
    speech: Speech | None = None
    """There once it is being spoken."""

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
    """All that is said from one `input.done` to the next.

    Where text can be taken while it is spoken, a piece grows until it is flushed; elsewhere, each sentence is a piece.
    """

    index: int
    by_sentence: bool
    language: str = "en"
    done: bool = False
    spoken: int = 0
    chars: int = 0
    pieces: deque[Piece] = field(default_factory=deque)
    _sentences: SentenceStream | None = None

    def append(self, text: str) -> None:
        if self.by_sentence:
            self._sentences = self._sentences or SentenceStream(self.language)
            self._sentences.push(text)
            self._take_sentences()
            return
        if not self.pieces or self.pieces[-1].closed:
            if not text.strip():
                return  # nothing to say yet
            self.pieces.append(Piece())
        self.pieces[-1].append(text)

    def flush(self) -> None:
        """Say what there is, without waiting for how it goes on."""
        if self._sentences is not None:
            self._sentences.close()
            self._take_sentences()
            self._sentences = None
        elif self.pieces:
            self.pieces[-1].close()

    def _take_sentences(self) -> None:
        assert self._sentences is not None
        while (sentence := self._sentences.pop()) is not None:
            self.pieces.append(Piece(sentence, closed=True))
