"""Splits text into sentences that are short enough for a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import sentencex

_CLAUSE_END = re.compile(r"(?<=[,;:—–])\s+|(?<=[，；：、])\s*")


def split(text: str, language: str = "en", most_chars: int = 300) -> list[str]:
    """Returns the sentences of a text; those longer than `most_chars` are cut at clauses, then at words."""
    return [part for sentence in segments(text, language) for part in fit(sentence.strip(), most_chars)]


def segments(text: str, language: str = "en") -> list[str]:
    """Returns the sentences with the white space around them: joined, they are the text."""
    return list(sentencex.segment(language, text))


def fit(sentence: str, most_chars: int) -> Iterator[str]:
    """Yields a sentence in parts of at most `most_chars` characters."""
    if len(sentence) <= most_chars:
        if sentence:
            yield sentence
        return
    yield from pack(_pieces(sentence, most_chars), most_chars)


def _pieces(sentence: str, most_chars: int) -> Iterator[str]:
    for clause in _CLAUSE_END.split(sentence):
        if len(clause) <= most_chars:
            yield clause
            continue
        for word in clause.split():
            yield from (word[i : i + most_chars] for i in range(0, len(word), most_chars))


def pack(pieces: Iterable[str], most_chars: int) -> Iterator[str]:
    """Joins pieces to lines of at most `most_chars` characters."""
    line = ""
    for piece in pieces:
        if line and len(line) + 1 + len(piece) > most_chars:
            yield line
            line = piece
        else:
            line = f"{line} {piece}".strip()
    if line:
        yield line
