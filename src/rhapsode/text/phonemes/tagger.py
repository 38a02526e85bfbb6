"""Tags parts of speech from left to right: by a token's letters, its neighbours, and the two tags before it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rhapsode.text.phonemes.table import REMEMBERED, PhonemeTable

AHEAD = 2
"""Tokens that are read after the one that is tagged."""
_START, _END = ("-START2-", "-START-"), ("-END-", "-END2-")
_TAGS = (
    *("``", "_SP", "XX", "WRB", "WP$", "WP", "WDT", "VBZ", "VBP", "VBN", "VBG", "VBD", "VB", "UH", "TO", "SYM", "RP"),
    *("RBS", "RBR", "RB", "PRP$", "PRP", "POS", "PDT", "NNS", "NNPS", "NNP", "NN", "NFP", "MD", "LS", "JJS", "JJR"),
    *("JJ", "IN", "HYPH", "FW", "EX", "DT", "CD", "CC", "AFX", "ADD", ":", ".", "-RRB-", "-LRB-", ",", "''", "$"),
)
"""Of tags with equal scores the first one is taken."""
_INDEX = {tag: index for index, tag in enumerate(_TAGS)}


class Tagger:
    """A linear classifier over features of a token and its surroundings."""

    def __init__(self, table: PhonemeTable) -> None:
        self._table = table
        self._weights = lru_cache(maxsize=REMEMBERED)(self._read_weights)

    def usual(self, token: str) -> str | None:
        """Returns the tag of a token that needs no context; `None` for other tokens."""
        return self._table.usual.get(token)

    def tag(self, tokens: Sequence[str], at: int, before: Sequence[str]) -> str:
        """Returns the tag of one of the tokens. `before` are the tags of those before it."""
        last_but_one, last = [*_START, *before[-2:]][-2:]
        word = tokens[at]
        near = {step: self._near(tokens, at + step) for step in (-2, -1, 0, 1, 2)}
        features = (
            "b",
            f"s3={word[-3:]}",
            f"p1={word[0]}",
            f"w={near[0]}",
            f"sh={_shape(word)}",
            "i+" if at else "i0",
            f"t-1={last}",
            f"t-2={last_but_one}",
            f"t-12={last},{last_but_one}",
            f"w-1={near[-1]}",
            f"s3-1={near[-1][-3:]}",
            f"w-2={near[-2]}",
            f"w+1={near[1]}",
            f"s3+1={near[1][-3:]}",
            f"w+2={near[2]}",
        )
        return _TAGS[np.add.reduce([self._weights(feature) for feature in features]).argmax()]

    def _read_weights(self, feature: str) -> NDArray[np.int32]:
        """Returns the weight of each tag, in tenths."""
        weights = np.zeros(len(_TAGS), np.int32)
        for weight in (self._table.weights.get(feature) or "").split():
            tag, _, tenths = weight.rpartition("=")
            weights[_INDEX[tag]] = int(tenths)
        return weights

    def _near(self, tokens: Sequence[str], at: int) -> str:
        """Returns a token as its neighbours see it: a rare one by its shape."""
        if at < 0:
            return _START[at]
        if at >= len(tokens):
            return _END[at - len(tokens)]
        word = tokens[at]
        plain = "!HYPHEN" if "-" in word[1:] and word[0] != "-" else "!DIGITS" if word[0].isdigit() else word.lower()
        return plain if self._table.frequent.get(plain) is not None else f"<{_shape(word)}>"


def _shape(word: str) -> str:
    if not word.isalpha():
        return "".join("d" if char.isdigit() else "x" if char.isalpha() else char for char in word[:4])
    if word.islower():
        return "x"
    if word.isupper():
        return "XX" if len(word) > 1 else "X1"
    return "Xx" if word[0].isupper() and word[1:].islower() else "xX"
