"""Sentences out of text that arrives in pieces, cut anywhere."""

from __future__ import annotations

import re
from collections import deque

from rhapsode.text.clean import clean
from rhapsode.text.split import fit, segments

_WORD_BEGUN = re.compile(r"[^\s\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]+$")  # Chinese and Japanese have no blanks


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
        begun = _WORD_BEGUN.search(self._rest)
        head = self._rest[: begun.start()] if begun else self._rest
        *certain, last = segments(head, self._language) or [""]
        if certain:
            self._hand_out(certain)
            self._rest = last + self._rest[len(head) :]

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._hand_out(segments(self._rest, self._language))
            self._rest = ""

    def _hand_out(self, sentences: list[str]) -> None:
        for sentence in sentences:
            self._ready.extend(fit(clean(sentence), self._most_chars))

    def pop(self) -> str | None:
        """The next sentence; None: none is certain yet, or, once closed, none is left."""
        return self._ready.popleft() if self._ready else None
