"""Splits text that arrives in fragments, cut anywhere, into sentences."""

from __future__ import annotations

from collections import deque

from rhapsode.text.clean import clean
from rhapsode.text.split import end_of_words, fit, segments

SHORT_CHARS = 300
"""Up to this length the end of a sentence is looked for with every new word, in a longer one with every few."""


class SentenceStream:
    """Push text, pop sentences. A sentence is certain once the next one has begun, or the text is closed."""

    def __init__(self, language: str = "en", most_chars: int = 300) -> None:
        self._language = language
        self._most_chars = most_chars
        self._rest = ""
        self._searched = 0  # whole words at the start of the rest that hold no certain sentence
        self._ready: deque[str] = deque()
        self.closed = False

    def push(self, text: str) -> None:
        """Adds text; what it makes certain can be popped."""
        self._rest += text
        # A word that is not complete may change where its sentence ends: search whole words only.
        whole = end_of_words(self._rest)
        if whole - self._searched <= max(0, self._searched - SHORT_CHARS) // 8:
            return
        *certain, last = segments(self._rest[:whole], self._language) or [""]
        self._emit(certain)
        self._rest = last + self._rest[whole:]
        self._searched = len(last)

    def close(self) -> None:
        """Ends the text: what remains is the last sentence."""
        if not self.closed:
            self.closed = True
            self._emit(segments(self._rest, self._language))
            self._rest = ""

    def pop(self) -> str | None:
        """Returns the next sentence; None if none is certain yet or, once closed, none is left."""
        return self._ready.popleft() if self._ready else None

    def _emit(self, sentences: list[str]) -> None:
        for sentence in sentences:
            self._ready.extend(fit(clean(sentence), self._most_chars))
