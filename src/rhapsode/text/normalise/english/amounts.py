"""English numbers that are nothing else: ordinals, fractions, ranges, versions, numbers inside words."""

from __future__ import annotations

import re

from rhapsode.text.normalise.digits import is_digits, whole
from rhapsode.text.normalise.english.money import money
from rhapsode.text.normalise.english.numbers import amount, digits, fraction, number, year
from rhapsode.text.normalise.english.units import measure, unit_after
from rhapsode.text.normalise.window import Spoken, WordWindow, bare
from rhapsode.text.numbers.english import cardinal, ordinal

_ORDINAL = re.compile(r"([0-9][0-9,]*)(?:st|nd|rd|th|ST|ND|RD|TH)")
_FRACTION = re.compile(r"([0-9]{1,3})/([0-9]{1,3})")
_RANGE = re.compile(r"([$€£]?[0-9][0-9,.]*%?)[-–—]([$€£]?[0-9][0-9,.]*[^0-9\s]*)")
_VERSION = re.compile(r"v?([0-9]{1,4}(?:\.[0-9]{1,4}){2,})")
_SIGNED = re.compile(r"([-–−+~≈±<>≤≥#])([0-9][0-9,.]*)")
_MULTIPLE = re.compile(r"([0-9][0-9,.]*)([xX×+])")
_MIXED = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9]+(?:[-/][A-Za-z0-9]+)*")
_PIECES = re.compile(r"[0-9]+|[A-Za-z]+|[-/]")
_HYPHENATED = re.compile(r"([0-9][0-9,.]*)-([A-Za-z][A-Za-z-]*)")
_SUM = re.compile(r"[0-9][0-9,.]*(?:[+*/×÷=][0-9][0-9,.]*)+")
_SIGNS = {"-": "minus", "–": "minus", "−": "minus", "+": "plus", "~": "about", "≈": "about", "±": "plus or minus"}
_SIGNS |= {"<": "less than", ">": "more than", "≤": "at most", "≥": "at least", "#": "number"}
_OPERATORS = {"+": "plus", "*": "times", "×": "times", "/": "over", "÷": "divided by", "=": "equals"}
_GLYPHS = {"½": "half", "¼": "quarter", "¾": "three quarters", "⅓": "third", "⅔": "two thirds", "⅛": "eighth"}


def special(window: WordWindow) -> Spoken | None:
    """Reads `21st`, `3/4`, `2 1/2`, `10-15`, `2.0.1`, `#5`, `10x`, `COVID-19`."""
    core = window.word.core
    if found := _ORDINAL.fullmatch(core):
        value = whole(found[1])
        return None if value is None or len(value) > 15 else Spoken(ordinal(int(value)))
    if found := _FRACTION.fullmatch(core):
        said = fraction(int(found[1]), int(found[2]))
        return Spoken(said or f"{cardinal(int(found[1]))} over {cardinal(int(found[2]))}")
    if core[-1] in _GLYPHS:
        return _glyph(core)
    if found := _VERSION.fullmatch(core):
        said = " point ".join(number(part) for part in found[1].split("."))
        return Spoken(f"version {said}" if core[0] == "v" else said)
    if found := _RANGE.fullmatch(core):
        return _range(found[1], found[2], window)
    return _signed(core)


def _signed(core: str) -> Spoken | None:
    if found := _SIGNED.fullmatch(core):
        said = amount(found[2])
        return None if said is None else Spoken(f"{_SIGNS[found[1]]} {said}")
    if found := _MULTIPLE.fullmatch(core):
        said = amount(found[1])
        return None if said is None else Spoken(f"{said} {'plus' if found[2] == '+' else 'times'}")
    if found := _HYPHENATED.fullmatch(core):
        said = amount(found[1])
        return None if said is None else Spoken(f"{said}-{found[2]}")
    if _SUM.fullmatch(core):
        parts = [_OPERATORS.get(part) or amount(part) for part in re.split(r"([+*/×÷=])", core)]
        return Spoken(" ".join(part for part in parts if part)) if all(parts) else None
    return Spoken(_mixed(core)) if _MIXED.fullmatch(core) else None


def plain(window: WordWindow) -> Spoken | None:
    """Reads `1,200`, `3.14`, `2 1/2` and `007`."""
    core = window.word.core
    said = amount(core)
    if said is None:
        return None
    following = window.next_in_phrase() if is_digits(core) else None
    found = _FRACTION.fullmatch(following.core) if following is not None else None
    if found and (part := fraction(int(found[1]), int(found[2]))):
        part = part.replace("one ", "a ", 1) if part.startswith("one ") else part
        return Spoken(f"{said} and {part}", 2)
    return Spoken(said)


def _glyph(core: str) -> Spoken | None:
    head, part = core[:-1], _GLYPHS[core[-1]]
    if not head:
        return Spoken(part if " " in part else f"one {part}")
    said = amount(head)
    return None if said is None else Spoken(f"{said} and {part if ' ' in part else f'a {part}'}")


def _range(first: str, last: str, window: WordWindow) -> Spoken | None:
    """Reads both ends; years where both are years; the unit of the last holds for the first."""
    years = (is_digits(text) and len(text) == 4 and 1100 <= int(text) < 2100 for text in (first, last))
    if all(years):
        return Spoken(f"{year(int(first))} to {year(int(last))}")
    if is_digits(first) and len(first) == 4 and is_digits(last) and len(last) == 2 and 1100 <= int(first) < 2100:
        return Spoken(f"{year(int(first))} to {cardinal(int(last))}")
    start, stop = amount(first.strip("$€£%")), _end(last)
    if start is None or stop is None:
        return None
    unit = unit_after(window) if is_digits(last) else None
    return Spoken(f"{start} to {stop} {unit}", 2) if unit else Spoken(f"{start} to {stop}")


def _end(text: str) -> str | None:
    if (said := amount(text)) is not None:
        return said
    window = WordWindow(iter([bare(text)]), (), closed=True)
    spoken = money(window) or measure(window)
    return None if spoken is None else spoken.text


def _mixed(core: str) -> str:
    """Returns letters and numbers apart: `B12` is `B twelve`."""
    said = []
    for piece in _PIECES.findall(core):
        if piece == "/":
            said.append("slash")
        elif piece != "-":
            said.append(piece if piece.isalpha() else number(piece) if len(piece) <= 3 else _long(piece))
    return " ".join(said)


def _long(piece: str) -> str:
    if len(piece) != 4 or piece[0] not in "12":
        return digits(piece)
    return year(int(piece)) if int(piece) % 100 else cardinal(int(piece))
