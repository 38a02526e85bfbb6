"""Normalises text before words are compared. A change of the rules needs a new `NAME`, which reports contain.

English: case, punctuation and hyphens do not count; contractions are written out; numbers, sums of money, percentages,
times of day, dates, years and ordinals are read as words; titles and units are written out; British spellings become
American ones.
Other languages: case and punctuation do not count.
"""

from __future__ import annotations

import re
import unicodedata

from rhapsode.bench.quality.numerals import spell_out

NAME = "rhapsode-en-2"

_CONTRACTIONS = (
    (r"\bwon't\b", "will not"),
    (r"\bcan't\b", "can not"),
    (r"\bcannot\b", "can not"),
    (r"\bshan't\b", "shall not"),
    (r"\blet's\b", "let us"),
    (r"n't\b", " not"),
    (r"'re\b", " are"),
    (r"'ve\b", " have"),
    (r"'ll\b", " will"),
    (r"'m\b", " am"),
    (r"'d\b", " would"),
    (r"\b(he|she|it|that|what|there|here|who|where|how)'s\b", r"\1 is"),
)
_WORDS = {
    "mr": "mister",
    "mrs": "missus",
    "ms": "miss",
    "dr": "doctor",
    "st": "saint",
    "ok": "okay",
    "etc": "et cetera",
    "harbour": "harbor",
    "colour": "color",
    "favourite": "favorite",
    "grey": "gray",
    "centre": "center",
    "theatre": "theater",
    "neighbour": "neighbor",
    "practise": "practice",
    "practises": "practices",
    "travelled": "traveled",
    "percent": "per cent",
    "oh": "zero",  # 9:05, 1901
    "km": "kilometers",
    "kilometres": "kilometers",
    "metres": "meters",
    "neighbours": "neighbors",
    "colours": "colors",
    "alright": "all right",
    "anytime": "any time",
}


def normalise(text: str, language: str = "en") -> str:
    """Returns words with single spaces between them."""
    text = unicodedata.normalize("NFKC", text).lower()
    text = re.sub(r"[’‘`´]", "'", text)
    if language.startswith("en"):
        text = _english(text)
    text = re.sub(r"[^\w\s']|_", " ", text)
    text = re.sub(r"(?<!\w)'|'(?!\w)", " ", text)
    if language.startswith("en"):
        text = " ".join(_WORDS.get(word, word) for word in text.split())
    return " ".join(text.split())


def _english(text: str) -> str:
    text = text.replace("&", " and ")
    for pattern, written in _CONTRACTIONS:
        text = re.sub(pattern, written, text)
    return spell_out(text)
