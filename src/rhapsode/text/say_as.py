"""Writes out a text as SSML's `<say-as>` asks: as a date, as a number, letter by letter."""

from __future__ import annotations

import re
from collections.abc import Callable

from rhapsode.errors import InvalidRequest
from rhapsode.text.normalise.digits import MOST_DIGITS, whole
from rhapsode.text.normalise.language import language_of
from rhapsode.text.normalise.stream import Normaliser
from rhapsode.text.numbers import east_asian, english, french, german, italian, portuguese, russian, spanish
from rhapsode.text.spoken import SpokenRun

SPELLED = ("characters", "spell-out", "verbatim")
READ = ("date", "time", "telephone", "currency", "unit", "fraction", "address")
KINDS = (*SPELLED, "digits", "cardinal", "number", "ordinal", *READ)

_PARTS = re.compile(r"[0-9]+")
_FORMATS = ("dmy", "mdy", "ymd")

Say = Callable[[int], str]
_EUROPEAN: dict[str, tuple[Say, Say]] = {
    "en": (english.cardinal, english.ordinal),
    "de": (german.cardinal, german.ordinal),
    "fr": (french.cardinal, french.ordinal),
    "es": (spanish.cardinal, spanish.ordinal),
    "it": (italian.cardinal, italian.ordinal),
    "pt": (portuguese.cardinal, portuguese.ordinal),
    "ru": (russian.cardinal, russian.ordinal),
}
_ASIAN = {"zh": (east_asian.CHINESE, "第"), "ja": (east_asian.JAPANESE, "第"), "ko": (east_asian.KOREAN, "제")}


def say_as(kind: str, text: str, format: str, language: str) -> str:
    """Returns the words of a text; raises `InvalidRequest` where it is not of its kind."""
    cardinal, ordinal = _numbers(language)
    if kind in SPELLED:
        chars = [char for char in text if not char.isspace()]
        return " ".join(cardinal(int(char)) if char in "0123456789" else char for char in chars)
    if kind == "digits":
        return " ".join(cardinal(int(char)) for char in text if char in "0123456789")
    if kind in ("cardinal", "number", "ordinal"):
        digits = whole(text.strip(), "., ")
        if digits is None or len(digits) > MOST_DIGITS:
            raise InvalidRequest(f"<say-as> of '{text[:40]}' as {kind}: it is no whole number.", param="input")
        return (ordinal if kind == "ordinal" else cardinal)(int(digits))
    if kind == "date" and format in _FORMATS:
        text = _date(text, format)
    return normalised(text, language)


def normalised(text: str, language: str) -> str:
    """Returns a whole text with everything written out."""
    rules = language_of(language)
    if rules is None:
        return text
    normaliser = Normaliser(rules)
    runs = [*normaliser.push(SpokenRun(text, 0, len(text), copied=True)), *normaliser.close()]
    return "".join(run.text for run in runs)


def _numbers(language: str) -> tuple[Say, Say]:
    if language in _ASIAN:
        digits, before = _ASIAN[language]
        return lambda value: east_asian.cardinal(
            value, digits
        ), lambda value: before + east_asian.cardinal(value, digits)
    return _EUROPEAN.get(language, _EUROPEAN["en"])


def _date(text: str, format: str) -> str:
    """Returns a date of three numbers as year, month and day; other texts as they are."""
    numbers = _PARTS.findall(text)
    if len(numbers) != 3 or max(map(len, numbers)) > 4:
        return text
    parts = dict(zip(format, map(int, numbers), strict=True))
    year = parts["y"] if parts["y"] > 99 else parts["y"] + (1900 if parts["y"] > 50 else 2000)
    return f"{year:04}-{parts['m']:02}-{parts['d']:02}"
