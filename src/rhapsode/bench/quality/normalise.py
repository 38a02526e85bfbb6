"""The stated normaliser: what counts as the same words. Changing it changes its name.

English: case, punctuation and hyphens do not count; contractions are written out; numbers, sums of money, percentages,
times of day and ordinals are read as words; titles are written out; British spellings become American ones.
Other languages: case and punctuation do not count.
"""

from __future__ import annotations

import re
import unicodedata

NAME = "rhapsode-en-1"

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
}
_ONES = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
)
_TENS = (
    "_",
    "_",
    "twenty",
    "thirty",
    "forty",
    "fifty",
    "sixty",
    "seventy",
    "eighty",
    "ninety",
)
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_MONEY = {"$": "dollars", "£": "pounds", "€": "euros"}


def normalise(text: str, language: str = "en") -> str:
    """Words with single spaces between them."""
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
    for pattern, written in _CONTRACTIONS:
        text = re.sub(pattern, written, text)
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    text = re.sub(r"([$£€])(\d+)(?:\.(\d\d))?", _money, text)
    text = re.sub(r"(\d+)\s*%", r"\1 percent ", text)
    text = re.sub(r"\b(\d{1,2}):(\d\d)\b", _time, text)
    text = re.sub(r"\b(\d+)(st|nd|rd|th)\b", lambda m: ordinal(int(m[1])), text)
    text = re.sub(r"(\d+)\.(\d+)", lambda m: f"{cardinal(int(m[1]))} point {_digits(m[2])}", text)
    return re.sub(r"\d+", lambda m: f" {cardinal(int(m[0])) if len(m[0]) <= 9 else _digits(m[0])} ", text)


def cardinal(value: int) -> str:
    """English words, without 'and'."""
    for size, name in ((1_000_000, "million"), (1000, "thousand"), (100, "hundred")):
        if value >= size:
            rest = f" {cardinal(value % size)}" if value % size else ""
            return f"{cardinal(value // size)} {name}{rest}"
    if value < 20:
        return _ONES[value]
    return _TENS[value // 10] + (f" {_ONES[value % 10]}" if value % 10 else "")


def ordinal(value: int) -> str:
    *head, last = cardinal(value).split()
    return " ".join([*head, _ORDINALS.get(last) or (f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th")])


def _digits(text: str) -> str:
    return " ".join(_ONES[int(digit)] for digit in text)


def _money(match: re.Match[str]) -> str:
    cents = f" {cardinal(int(match[3]))}" if match[3] and int(match[3]) else ""
    return f"{cardinal(int(match[2]))} {_MONEY[match[1]]}{cents}"


def _time(match: re.Match[str]) -> str:
    hour, minute = int(match[1]), int(match[2])
    if not minute:
        return f"{cardinal(hour)} o'clock" if hour <= 12 else f"{cardinal(hour)} hundred"
    return f"{cardinal(hour)} {'oh ' if minute < 10 else ''}{cardinal(minute)}"
