"""Cuts a text into what is spoken in one pass: lines, sentences, and at most so many phonemes."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rhapsode.text.stream import SentenceStream

MOST_CHARS = 300
"""A longer sentence is cut at its clauses."""
LEAST_CHARS = 20
"""A clause that is spoken by itself has so many letters."""
_CLAUSE_END = re.compile(r"[,;:—–](?=\s)")
_CUT_AFTER = ("!.?…", ":;", ",—")
"""Signs after which a passage that is too long is cut, the best first."""
_GO_ALONG = ")”"
_TOKEN = re.compile(r'([;:,.!?—…"()“”]|[^\s;:,.!?—…"()“”]+)(\s*)')
_LINK = re.compile(r"\[([^\[\]\n]*)\]\([^()\n]*\)")
"""A word with a link, or with the original package's markup for its sounds: the word alone is spoken."""


class Token(NamedTuple):
    """A word's phonemes, or a sign."""

    phonemes: str
    blank: str = ""
    """The white space after it."""


def tokens_of(phonemes: str) -> list[Token]:
    return [Token(found[1], " " if found[2] else "") for found in _TOKEN.finditer(phonemes)]


def passages(tokens: Sequence[Token], most: int) -> Iterator[str]:
    """Yields strings of at most `most` phonemes. They are cut where the original package cuts them."""
    held, filled = list[Token](), 0
    for token in [part for whole in tokens for part in _short(whole, most)]:
        while held and (size := filled + len(token.phonemes)) > most:
            at = _cut(held, size, most)
            yield _joined(held[:at])
            held = held[at:]
            filled = _size(held)
        held.append(token)
        filled += len(token.phonemes) + len(token.blank)
    if held:
        yield _joined(held)


def _cut(held: Sequence[Token], size: int, most: int) -> int:
    """Returns how many tokens are spoken now: up to the last good sign, if what is left then fits."""
    for signs in _CUT_AFTER:
        found = next((i for i in reversed(range(len(held))) if held[i].phonemes in set(signs)), None)
        if found is None:
            continue
        at = found + 1
        if at < len(held) and held[at].phonemes in set(_GO_ALONG):
            at += 1
        if size - len(_joined(held[:at])) <= most:
            return at
    return len(held)


def _short(token: Token, most: int) -> Iterator[Token]:
    """Yields the parts of a token that is too long by itself."""
    *parts, last = [token.phonemes[i : i + most] for i in range(0, max(1, len(token.phonemes)), most)]
    yield from map(Token, parts)
    yield Token(last, token.blank)


def _size(tokens: Sequence[Token]) -> int:
    return sum(len(token.phonemes) + len(token.blank) for token in tokens)


def _joined(tokens: Sequence[Token]) -> str:
    return "".join(token.phonemes + token.blank for token in tokens).rstrip()


class PieceStream:
    """Push text, pop pieces of it. A piece ends with its line, or with its sentence where `by_sentence` is set.

    It is a `TextFeed`, but a prompt takes no text from it while the prompt is spoken: each piece gets a prompt.
    """

    def __init__(self, *, by_sentence: bool = True, language: str = "en", first_chars: int | None = None) -> None:
        """`first_chars`: a first sentence with more letters is cut after a clause."""
        self._by_sentence, self._language, self._first_chars = by_sentence, language, first_chars
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
        self._texts.append(_LINK.sub(r"\1", text))


def first_clause(sentence: str, most_chars: int) -> int:
    """Returns where to cut a sentence so that its beginning is short: after the last clause of at most `most_chars`,
    or the first longer one. A clause of fewer than `LEAST_CHARS` is none: it would sound weak."""
    if len(sentence) <= most_chars:
        return len(sentence)
    ends = [found.end() for found in _CLAUSE_END.finditer(sentence) if found.end() >= LEAST_CHARS]
    fitting = [end for end in ends if end <= most_chars]
    return fitting[-1] if fitting else ends[0] if ends else len(sentence)
