"""English abbreviations, Roman numerals and signs that are words."""

from __future__ import annotations

import re

from rhapsode.text.normalise.window import Spoken, WordWindow
from rhapsode.text.numbers.english import cardinal, ordinal

_DOTTED = {
    "Mr": "Mister",
    "Mrs": "Missus",
    "Ms": "Miz",
    "Prof": "Professor",
    "Gen": "General",
    "Col": "Colonel",
    "Lt": "Lieutenant",
    "Sgt": "Sergeant",
    "Capt": "Captain",
    "Cmdr": "Commander",
    "Rev": "Reverend",
    "Hon": "Honorable",
    "Sen": "Senator",
    "Rep": "Representative",
    "Gov": "Governor",
    "Pres": "President",
    "Jr": "Junior",
    "Sr": "Senior",
    "Ave": "Avenue",
    "Blvd": "Boulevard",
    "Rd": "Road",
    "Ln": "Lane",
    "Hwy": "Highway",
    "Apt": "Apartment",
    "Dept": "Department",
    "Inc": "Incorporated",
    "Ltd": "Limited",
    "Corp": "Corporation",
    "Bros": "Brothers",
    "Mt": "Mount",
    "Univ": "University",
    "vs": "versus",
    "etc": "et cetera",
    "approx": "approximately",
    "dept": "department",
    "est": "estimated",
    "e.g": "for example",
    "i.e": "that is",
    "cf": "compare",
    "al": "al",
}
_PLAIN = {"vs": "versus", "Mr": "Mister", "Mrs": "Missus", "Dr": "Doctor", "w/": "with", "w/o": "without"}
_PLAIN |= {"and/or": "and or", "N/A": "N A", "c/o": "care of", "24/7": "twenty-four seven"}
_BEFORE_NAMES = {"Dr": ("Doctor", "Drive"), "St": ("Saint", "Street"), "Ft": ("Fort", "Fort")}
_BEFORE_NUMBERS = {"No": "number", "no": "number", "Nos": "numbers", "Vol": "volume", "vol": "volume", "Fig": "figure"}
_BEFORE_NUMBERS |= {"fig": "figure", "p": "page", "pp": "pages", "Ch": "chapter", "ch": "chapter", "Sec": "section"}
_BEFORE_NUMBERS |= {"Eq": "equation", "Art": "article", "Rm": "room", "Ext": "extension", "ext": "extension"}
_SIGNS = {"&": "and", "+": "plus", "=": "equals", "@": "at", "%": "percent", "×": "times", "÷": "divided by"}
_SIGNS |= {"→": "to", "≈": "is about", "≤": "is at most", "≥": "is at least"}
_SIGNS |= {"±": "plus or minus", "°": "degrees", "§": "section", "€": "euros", "£": "pounds", "$": "dollars"}
_INITIALS = re.compile(r"(?:[A-Z]\.)+[A-Z]")
_ROMAN = re.compile(r"(?=[XVI])X{0,3}(?:IX|IV|V?I{0,3})")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10}
_COUNTED = frozenset(
    "chapter part war act volume section book type phase title bowl episode level class stage figure appendix world"
    " article mark".split()
)
_NAMES = frozenset(
    "Henry Louis George Edward Charles Elizabeth Richard William James John Paul Benedict Pius Napoleon Catherine"
    " Frederick Philip Alexander Nicholas Peter Ivan Leo Gregory Francis Innocent Clement Otto Ramses Ferdinand Carlos"
    " Gustav Christian Harald Malcolm Robert Mary Wilhelm Friedrich".split()
)


def abbreviation(window: WordWindow) -> Spoken | None:
    """Reads `Dr.`, `St.`, `No. 5`, `etc.`, `U.S.`"""
    word = window.word
    dotted = word.tail.startswith(".")
    if word.core in _BEFORE_NAMES and (dotted or word.core == "Dr"):
        return _before_name(window, dotted)
    if dotted and word.core in _BEFORE_NUMBERS:
        following = window.after()
        is_number = following is not None and following.core[:1].isdigit() and word.tail == "."
        return Spoken(_BEFORE_NUMBERS[word.core], tail=1) if is_number else None
    if dotted and word.core in _DOTTED:
        return Spoken(_DOTTED[word.core], tail=_own_dot(window))
    if word.core in _PLAIN:
        return Spoken(_PLAIN[word.core])
    if _INITIALS.fullmatch(word.core):
        return Spoken(word.core.replace(".", " "), tail=_initials_dot(window) if dotted else 0)
    return None


def sign(window: WordWindow) -> Spoken | None:
    """Reads `&`, `+` and other signs that stand alone between words."""
    said = _SIGNS.get(window.word.core)
    return Spoken(said) if said and window.before() is not None and window.after() is not None else None


def roman(window: WordWindow) -> Spoken | None:
    """Reads `Henry VIII`, `World War II`, `Chapter IV`."""
    core, before = window.word.core, window.before()
    if before is None or before.ends or not _ROMAN.fullmatch(core):
        return None
    value = 0
    for char, following in zip(core, [*core[1:], ""], strict=True):
        size = _ROMAN_VALUES[char]
        value += -size if size < _ROMAN_VALUES.get(following, 0) else size
    if before.core.lower() in _COUNTED:
        return Spoken(cardinal(value))
    return Spoken(f"the {ordinal(value)}") if before.core in _NAMES and len(core) > (core == "I") else None


def _before_name(window: WordWindow, dotted: bool) -> Spoken | None:
    word = window.word
    before_name, after_name = _BEFORE_NAMES[word.core]
    following = window.after() if word.tail in ("", ".") else None
    if following is not None and following.core[:1].isupper():
        before = window.before()
        follows_name = before is not None and not before.ends and before.core[:1].isupper()
        if not follows_name or word.core == "Dr":
            return Spoken(before_name, tail=int(dotted))
    if not dotted and following is not None:
        return None
    return Spoken(after_name, tail=_own_dot(window) if dotted else 0)


def _initials_dot(window: WordWindow) -> int:
    """The last dot of initials is their own before a name; that of a country may end a sentence."""
    following = window.after() if window.word.tail == "." else None
    is_name = following is not None and window.word.core not in _COUNTRIES
    return 1 if is_name else _own_dot(window)


def _own_dot(window: WordWindow) -> int:
    """The dot of an abbreviation is its own, unless a sentence ends with it."""
    if window.word.tail != ".":
        return int(len(window.word.tail) > 1 and window.word.tail[1] in ",;:)!?")
    following = window.after()
    is_title = window.word.core in _DOTTED and window.word.core[0].isupper() and window.word.core not in _ENDING
    return int(following is not None and (is_title or not following.core[:1].isupper()))


_COUNTRIES = frozenset(("U.S", "U.K", "U.N", "E.U", "D.C", "U.S.A", "U.A.E", "L.A", "N.Y", "A.D", "B.C"))
_ENDING = frozenset(("Jr", "Sr", "Ave", "Blvd", "Rd", "Ln", "Hwy", "Inc", "Ltd", "Corp", "Bros", "Dept", "Univ"))
_NUMERALS = tuple(
    tens + ones for tens in ("", "X", "XX", "XXX") for ones in ("", *"I II III IV V VI VII VIII IX".split())
)
SHORTENED = (*_DOTTED, *_PLAIN, *_BEFORE_NAMES, *_BEFORE_NUMBERS, *_NUMERALS)
