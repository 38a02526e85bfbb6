"""Cuts a text, complete or arriving, into the pieces that a model speaks in one pass: sentences, or lines."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from rhapsode.text.stream import SentenceStream

MOST_CHARS = 300
"""A longer sentence is cut at its clauses."""
LEAST_CHARS = 20
"""A clause that is spoken by itself has so many letters."""
_CLAUSE_END = re.compile(r"[,;:—–](?=\s)|[，；：、]")


class PieceStream:
    """Takes text as it arrives, and gives it back in pieces: sentences with `by_sentence`, else lines.

    It is a `TextFeed`, but a prompt takes no text from it while the prompt is spoken: each piece gets a prompt.
    """

    def __init__(
        self,
        *,
        by_sentence: bool = True,
        language: str = "en",
        first_chars: int | None = None,
        plain: Callable[[str], str] = str,
    ) -> None:
        """`first_chars`: a first sentence with more letters is cut after a clause. `plain` takes markup out of a
        piece."""
        self._by_sentence, self._language, self._first_chars = by_sentence, language, first_chars
        self._plain = plain
        self._sentences = self._line()
        self._rest = ""  # of a line, where a line is a piece
        self._texts: deque[str] = deque()
        self.closed = False

    def push(self, text: str) -> tuple[int, ...]:
        """Adds text; what it makes certain can be popped."""
        first, *others = text.split("\n")
        self._add(first)
        for line in others:
            self._end_line()
            self._add(line)
        return ()

    def close(self) -> tuple[int, ...]:
        """Ends the text."""
        if not self.closed:
            self.closed = True
            self._end_line()
        return ()

    def steps(self) -> None:
        """Does nothing: the text of the prompt that is being spoken is already complete."""

    def pop(self) -> str | None:
        """Returns the next piece; None if none is certain yet or, once closed, none is left."""
        return self._texts.popleft() if self._texts else None

    def _line(self) -> SentenceStream:
        return SentenceStream(self._language, MOST_CHARS)

    def _add(self, text: str) -> None:
        if not self._by_sentence:
            self._rest += text
            return
        self._sentences.push(text)
        self._take()

    def _end_line(self) -> None:
        if self._rest.strip():
            self._emit(self._rest)
        self._rest = ""
        self._sentences.close()
        self._take()
        self._sentences = self._line()

    def _take(self) -> None:
        while (sentence := self._sentences.pop()) is not None:
            if self._first_chars is None:
                self._emit(sentence)
                continue
            at = first_clause(sentence, self._first_chars)
            self._first_chars = None
            for part in filter(None, (sentence[:at].strip(), sentence[at:].strip())):
                self._emit(part)

    def _emit(self, text: str) -> None:
        self._texts.append(self._plain(text))


def first_clause(sentence: str, most_chars: int) -> int:
    """Returns where to cut a sentence so that its beginning is short: after the last clause of at most `most_chars`,
    or the first longer one. A clause of fewer than `LEAST_CHARS` is none: it would sound weak."""
    if len(sentence) <= most_chars:
        return len(sentence)
    ends = [found.end() for found in _CLAUSE_END.finditer(sentence) if found.end() >= LEAST_CHARS]
    fitting = [end for end in ends if end <= most_chars]
    return fitting[-1] if fitting else ends[0] if ends else len(sentence)
