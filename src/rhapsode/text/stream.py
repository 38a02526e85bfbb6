"""Sentences out of text that arrives in pieces, cut anywhere."""

from __future__ import annotations

from collections import deque

from rhapsode.text.clean import clean
from rhapsode.text.split import split


class SentenceStream:
    """Push text, pop sentences. A sentence is certain once the next one has begun, or the text is closed."""

    def __init__(self, language: str = "en", most_chars: int = 300) -> None:
        self._language = language
        self._most_chars = most_chars
        self._rest = ""
        self._ready: deque[str] = deque()
        self.closed = False

    def push(self, text: str) -> None:
        self._rest += text
        # A word that is still being written may change where its sentence ends: look at whole words only.
        head, space, tail = self._rest.rpartition(" ")
        sentences = split(clean(head), self._language, self._most_chars) if space else []
        if len(sentences) > 1:
            self._ready.extend(sentences[:-1])
            self._rest = f"{sentences[-1]} {tail}"

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._ready.extend(split(clean(self._rest), self._language, self._most_chars))
            self._rest = ""

    def pop(self) -> str | None:
        """The next sentence; None: none is certain yet, or, once closed, none is left."""
        return self._ready.popleft() if self._ready else None
