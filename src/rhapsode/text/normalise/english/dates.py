"""English dates, years and decades."""

from __future__ import annotations

import re

from rhapsode.text.normalise.digits import is_digits
from rhapsode.text.normalise.english.numbers import decade, number, year
from rhapsode.text.normalise.window import Spoken, Word, WordWindow
from rhapsode.text.numbers.english import ordinal

MONTHS = ("January February March April May June July August September October November December").split()
_SHORT = {name[:3]: name for name in MONTHS} | {"Sept": "September"}
_FULL = {name.lower(): name for name in MONTHS}
_DAYS = {
    "Mon": "Monday",
    "Tue": "Tuesday",
    "Tues": "Tuesday",
    "Wed": "Wednesday",
    "Thu": "Thursday",
    "Thur": "Thursday",
    "Thurs": "Thursday",
    "Fri": "Friday",
    "Sat": "Saturday",
    "Sun": "Sunday",
}
DATE_WORDS = (*MONTHS, *_FULL, *_SHORT, *_DAYS, *(name.upper() for name in MONTHS))
_LONG_DAYS = frozenset(_DAYS.values())
_ISO = re.compile(r"([12][0-9]{3})-([01][0-9])-([0-3][0-9])")
_SLASHED = re.compile(r"([0-9]{1,2})([/.-])([0-9]{1,2})\2([0-9]{4}|[0-9]{2})")
_DAY = re.compile(r"([0-9]{1,2})(?:st|nd|rd|th)?")
_DECADE = re.compile(r"'?((?:1[0-9]|20)?[0-9]0)['’]?s")
_YEAR_BEFORE = frozenset("in since year circa during late early mid spring summer autumn fall winter".split())
_OFTEN_BEFORE = frozenset("by from until till of before after around through to and between".split())
_NO_NOUNS = frozenset("was is as has does its this thus us his".split())
_DAY_BEFORE = frozenset("on the until by from to of since before after".split())
_ERAS = {"BC": "BC", "AD": "AD", "BCE": "BCE", "CE": "CE"}


def is_month(word: Word) -> bool:
    """Whether a word is the name of a month or short for one; `may` and `march` are verbs."""
    return word.core in _SHORT or (word.core.lower() in _FULL and word.core not in ("may", "march"))


def date(window: WordWindow) -> Spoken | None:
    """Reads `2026-11-15`, `3/14/2024`, `March 3, 1985`, `3 March 1985`, `Sept. 4th`, `the 1990s`."""
    core = window.word.core
    if found := _ISO.fullmatch(core):
        return _spoken_date(int(found[2]), int(found[3]), found[1])
    if found := _SLASHED.fullmatch(core):
        return _slashed(int(found[1]), int(found[3]), found[4], found[2])
    if is_month(window.word):
        return _month_first(window)
    if _DAY.fullmatch(core):
        return _day_first(window)
    if found := _DECADE.fullmatch(core):
        return Spoken(decade(int(found[1])), lead=_apostrophe(window.word))
    return None


def weekday(window: WordWindow) -> Spoken | None:
    """Reads `Mon.` and `Thurs,` before a date or a comma."""
    word = window.word
    if word.core not in _DAYS or not word.tail:
        return None
    following = window.after()
    if following is None or not (is_month(following) or following.core[:1].isdigit()):
        return None
    return Spoken(_DAYS[word.core], tail=1 if word.tail.startswith(".") else 0)


def year_number(window: WordWindow) -> Spoken | None:
    """Reads four digits as a year where the words around say that it is one."""
    core = window.word.core
    if not is_digits(core) or len(core) != 4 or not 1000 <= int(core) < 3000:
        return None
    value, before, said = int(core), window.before(), Spoken(year(int(core)))
    word = before.core.lower() if before is not None and not before.ends else ""
    if word in _YEAR_BEFORE or (before is not None and is_month(before)):
        return said
    following = window.next_in_phrase()
    if following is not None and following.core in _ERAS:
        return said
    noun = following.core if following is not None and following.core.islower() else ""
    if noun.endswith("s") and noun not in _NO_NOUNS:
        return None
    is_usual = 1900 <= value < 2100 or (value >= 1500 and value % 100 > 0 and value < 1900)
    return said if word in _OFTEN_BEFORE or is_usual else None


def _month_first(window: WordWindow) -> Spoken | None:
    word = window.word
    is_short = word.core in _SHORT and word.core.lower() not in _FULL
    dotted = is_short and word.tail.startswith(".")
    if word.tail and not (dotted and word.tail == "."):
        return None
    name = _SHORT.get(word.core) or _FULL[word.core.lower()]
    following = window.after()
    day = None if following is None or following.lead else _day(following.core)
    if day is None:
        is_year = following is not None and is_digits(following.core) and len(following.core) == 4
        return Spoken(name, tail=int(dotted)) if dotted or (is_short and is_year) else None
    assert following is not None
    said = f"{name} {ordinal(day)}"
    then = window.after(2) if following.tail in ("", ",") else None
    if then is None or not is_digits(then.core) or len(then.core) != 4 or then.lead:
        return Spoken(said, 2)
    return Spoken(f"{said}, {_year(then.core)}", 3)


def _day_first(window: WordWindow) -> Spoken | None:
    month = window.next_in_phrase()
    day = _day(window.word.core)
    if month is None or day is None or not is_month(month) or month.core.islower():
        return None
    if month.core == "May" and not month.tail and not _is_may(window):
        return None
    said = f"{ordinal(day)} of {_SHORT.get(month.core) or _FULL[month.core.lower()]}"
    before = window.before()
    if before is None or before.core.lower() != "the":
        said = f"the {said}"
    dotted = int(month.core in _SHORT and month.core.lower() not in _FULL and month.tail.startswith("."))
    then = window.after(2) if len(month.tail) == dotted or month.tail == "," else None
    if then is None or not is_digits(then.core) or len(then.core) != 4 or then.lead:
        return Spoken(said, 2, tail=dotted)
    return Spoken(f"{said}, {_year(then.core)}", 3)


def _is_may(window: WordWindow) -> bool:
    """Whether `5 May` is a date: a word for dates comes before, a year or nothing after."""
    before, then = window.before(), window.after(2)
    if before is not None and (before.core.lower() in _DAY_BEFORE or before.core in _DAYS or before.core in _LONG_DAYS):
        return True
    return then is None or (is_digits(then.core) and len(then.core) == 4)


def _slashed(first: int, second: int, written: str, mark: str) -> Spoken | None:
    month, day = (second, first) if first > 12 or mark == "." else (first, second)
    return _spoken_date(month, day, written)


def _spoken_date(month: int, day: int, written: str) -> Spoken | None:
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    full = written if len(written) == 4 else ("19" if int(written) > 50 else "20") + written
    return Spoken(f"{MONTHS[month - 1]} {ordinal(day)}, {_year(full)}")


def _year(text: str) -> str:
    return year(int(text)) if text[0] in "12" else number(text)


def _day(core: str) -> int | None:
    found = _DAY.fullmatch(core)
    return int(found[1]) if found and 1 <= int(found[1]) <= 31 else None


def _apostrophe(word: Word) -> int:
    return int(word.lead.endswith(("'", "’", "‘")))
