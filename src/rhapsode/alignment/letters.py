"""Spells words with the letters that an acoustic model knows."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

_LIGATURES = str.maketrans({"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ł": "l", "’": "'"})


def spelled(word: str, known: Collection[str]) -> list[str]:
    """Returns the spellings of a word in known letters: a sign inside it, such as a hyphen, makes two of it.

    A word of signs alone has none.

    A letter that the model does not know as it is, such as "é", is taken apart, and its accent dropped.
    """
    found = [""]
    for letter in unicodedata.normalize("NFC", word.lower()):
        parts = letter if letter in known else unicodedata.normalize("NFKD", letter.translate(_LIGATURES))
        for char in parts:
            if char in known and not char.isspace():
                found[-1] += char
            elif not unicodedata.combining(char):
                found.append("")
    return [letters.strip("'") for letters in found if letters.strip("'")]
