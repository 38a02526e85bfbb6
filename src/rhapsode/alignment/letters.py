"""Spells words with the letters that an acoustic model knows."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

_LIGATURES = str.maketrans({"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ł": "l", "’": "'"})


def spelled(word: str, known: Collection[str]) -> list[str]:
    """Returns the letters of a word: a hyphen or another sign inside it makes two, and a sign alone none."""
    found = [""]
    for char in unicodedata.normalize("NFKD", word.lower().translate(_LIGATURES)):
        if char in known and not char.isspace():
            found[-1] += char
        elif not unicodedata.combining(char):
            found.append("")
    return [letters.strip("'") for letters in found if letters.strip("'")]
