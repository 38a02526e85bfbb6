"""Spells out numbers as English words, in one way each: recognisers write digits for most spoken numbers."""

from __future__ import annotations

import re
from collections.abc import Callable

from rhapsode.text.numbers import english

_MONEY = {"$": "dollars", "£": "pounds", "€": "euros"}
_COINS = {"$": "cents", "£": "pence", "€": "cents"}
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_DIGIT = rf"(?:{'|'.join(english.cardinal(value) for value in range(1, 10))})"
_NUMBER_WORDS = [english.cardinal(value) for value in (*range(20), *range(20, 100, 10))]
_NUMBER = rf"(?:{'|'.join([*_NUMBER_WORDS, 'billion', 'million', 'thousand', 'hundred'])})"


def cardinal(value: int) -> str:
    """Returns a number as English words, without 'and' and hyphens."""
    return english.cardinal(value).replace("-", " ")


def ordinal(value: int) -> str:
    return english.ordinal(value).replace("-", " ")


def digits(text: str) -> str:
    return " ".join(english.cardinal(int(digit)) for digit in text if digit.isdigit())


def _plain(text: str) -> str:
    """Spells four digits in pairs where that is usual, and more than six, or a leading zero, digit by digit."""
    value = int(text)
    if (len(text) > 1 and text[0] == "0") or len(text) > 6:
        return digits(text)
    if 1000 < value < 10_000 and (value < 1100 or 2010 <= value < 2100 or value % 1000 >= 100):
        head, tail = divmod(value, 100)
        rest = f"{'zero ' if 0 < tail < 10 else ''}{cardinal(tail)}" if tail else "hundred"
        return f"{cardinal(head)} {rest}"
    return cardinal(value)


def _amount(text: str) -> str:
    whole, _, fraction = text.partition(".")
    return cardinal(int(whole)) + (f" point {digits(fraction)}" if fraction else "")


def _money(match: re.Match[str]) -> str:
    sign, whole, cents, scale = match.groups()
    if scale:
        return f"{_amount(f'{whole}.{cents}' if cents else whole)} {scale} {_MONEY[sign]} "
    coins = cardinal(int(cents)) if cents and int(cents) else ""
    if coins and not int(whole):
        return f"{coins} {_COINS[sign]} "
    return f"{cardinal(int(whole))} {_MONEY[sign]} {coins} "


def _time(match: re.Match[str]) -> str:
    hour, minute = int(match[1]), int(match[2])
    if not minute:
        return f"{cardinal(hour)} o'clock" if hour <= 12 else f"{cardinal(hour)} hundred"
    return f"{cardinal(hour)} {'zero ' if minute < 10 else ''}{cardinal(minute)}"


_RULES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"(?<![a-z])([ap])(?:\.\s?)?m\b\.?", r" \1m "),
    (r"(?<=\d)[:.]00(?=\s+[ap]m\b)", ""),
    (r"\b(\d{1,2}):([0-5]\d)\b", _time),
    (r"(?<=\d),(?=\d{3}\b)", ""),
    (r"([$£€])(\d+)(?:\.(\d+))?(?:\s(thousand|million|billion)\b)?", _money),
    (r"(?<![\d.])(1?\d)\.([0-5]\d)\b(?!\s*(?:%|per|million|billion))", _time),  # recognisers write 7:45 as 7.45
    (r"(?<=\d)\s*%", " percent "),
    (r"(?<=\d)\s*°", " degrees "),
    (r"(?:#|\bno\.)\s*(?=\d)", " number "),
    (r"\b\d+(?:-\d+)+\b|\b\d{3} \d{4}\b", lambda m: digits(m[0])),
    (rf"\b({_MONTHS}) (\d{{1,2}})\b(?!\.\d)", lambda m: f"{m[1]} {ordinal(int(m[2]))}"),
    (r"\b(\d+)(?:st|nd|rd|th)\b", lambda m: ordinal(int(m[1]))),
    (r"\d+\.\d+", lambda m: _amount(m[0])),
    (r"\d+", lambda m: f" {_plain(m[0])} "),
    (r"\ba (?=(?:hundred|thousand|million|billion)\b)", "one "),
    (rf"\b(hundred|thousand|million) and (?={_NUMBER}\b)", r"\1 "),
    (rf"\b({_DIGIT}) hundred[\s-]+(?={_DIGIT}\b)", r"\1 zero "),  # as 9:05, which recognisers write as 905
    (rf"\b({_DIGIT}) hundred[\s-]+(?={_NUMBER}\b)(?!thousand|million|billion)", r"\1 "),
    (r"\b(dollar|pound|euro|(?<!per )cent)\b", r"\1s"),
    (rf"\b(dollars|pounds|euros)\s+(?:and\s+)?((?:{_NUMBER}[\s-]+)+)(?:cents|pence)\b", r"\1 \2"),
)


def spell_out(text: str) -> str:
    """Returns lower-case text with every number in it as words."""
    for pattern, written in _RULES:
        text = re.sub(pattern, written, text)
    return text
