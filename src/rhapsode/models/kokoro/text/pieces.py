"""Cuts what is spoken in one pass into passages of at most so many phonemes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

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


def plain(text: str) -> str:
    """Returns a text without markup for sounds."""
    return _LINK.sub(r"\1", text)
