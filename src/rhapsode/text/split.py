"""Splits text into sentences that are short enough for a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import sentencex

MOST_SEARCHED = 600
"""The most characters in which sentences are looked for at once: the time grows with the square of their number."""

_CLAUSE_END = re.compile(r"(?<=[,;:—–])\s+|(?<=[，；：、])\s*")


def split(text: str, language: str = "en", most_chars: int = 300) -> list[str]:
    """Returns the sentences of a text; those longer than `most_chars` are cut at clauses, then at words."""
    return [part for sentence in segments(text, language) for part in fit(sentence.strip(), most_chars)]


def segments(text: str, language: str = "en") -> list[str]:
    """Returns the sentences with the white space around them: joined, they are the text. Those that are much longer
    than `MOST_SEARCHED` are cut."""
    found, at = list[str](), 0
    while len(text) - at > MOST_SEARCHED:
        window = text[at : at + MOST_SEARCHED]
        *whole, last = sentencex.segment(language, window[: end_of_words(window)])
        if sum(map(len, whole)) < MOST_SEARCHED // 2:
            whole.append(last[: _end_of_clauses(last)])
        found += whole
        at += sum(map(len, whole))
    return [*found, *sentencex.segment(language, text[at:])]


def end_of_words(text: str) -> int:
    """Returns where the last complete word ends; Chinese and Japanese characters are words of their own, and a word of
    `MOST_SEARCHED` characters counts as complete."""
    for end in range(len(text), max(0, len(text) - MOST_SEARCHED), -1):
        if text[end - 1].isspace() or _is_ideographic(text[end - 1]):
            return end
    return len(text) if len(text) >= MOST_SEARCHED else 0


def _is_ideographic(char: str) -> bool:
    return "\u3000" <= char <= "\u30ff" or "\u3400" <= char <= "\u9fff" or "\uff00" <= char <= "\uffef"


def _end_of_clauses(text: str) -> int:
    """Returns where the last clause of a text begins, or else its end."""
    ends = [found.end() for found in _CLAUSE_END.finditer(text)]
    return ends[-1] if ends and ends[-1] > len(text) // 2 else len(text)


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
