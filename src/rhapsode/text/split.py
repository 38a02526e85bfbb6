"""Sentences, each short enough for a model to see at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import sentencex

_CLAUSE_END = re.compile(r"(?<=[,;:—–，；：、])\s*")


def split(text: str, language: str = "en", most_chars: int = 300) -> list[str]:
    """The sentences of a text; those longer than `most_chars` are cut at clauses, then at words."""
    sentences = [s.strip() for s in sentencex.segment(language, text)]
    return [part for sentence in sentences if sentence for part in _fit(sentence, most_chars)]


def _fit(sentence: str, most_chars: int) -> Iterator[str]:
    if len(sentence) <= most_chars:
        yield sentence
        return
    yield from _pack(_pieces(sentence, most_chars), most_chars)


def _pieces(sentence: str, most_chars: int) -> Iterator[str]:
    for clause in _CLAUSE_END.split(sentence):
        if len(clause) <= most_chars:
            yield clause
            continue
        for word in clause.split():
            yield from (word[i : i + most_chars] for i in range(0, len(word), most_chars))


def _pack(pieces: Iterator[str], most_chars: int) -> Iterator[str]:
    line = ""
    for piece in pieces:
        if line and len(line) + 1 + len(piece) > most_chars:
            yield line
            line = piece
        else:
            line = f"{line} {piece}".strip()
    if line:
        yield line
