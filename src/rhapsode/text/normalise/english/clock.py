"""English times of day."""

from __future__ import annotations

import re

from rhapsode.text.normalise.window import Spoken, WordWindow
from rhapsode.text.numbers.english import cardinal

_TIME = re.compile(r"([0-9]{1,2}):([0-5][0-9])(?::([0-5][0-9]))?([aApP]\.?[mM])?")
_HOUR = re.compile(r"([0-9]{1,2})([aApP]\.?[mM])")
_TIMES = re.compile(r"([0-9]{1,2}):([0-5][0-9])[-–]([0-9]{1,2}):([0-5][0-9])")
_HALVES = {"am": "AM", "pm": "PM", "a.m": "AM", "p.m": "PM"}


def time_of_day(window: WordWindow) -> Spoken | None:
    """Reads `7:45`, `3:45 pm`, `10:30:15`, `8am`, `6 p.m.`"""
    word = window.word
    if found := _TIME.fullmatch(word.core):
        hour, minute = int(found[1]), int(found[2])
        if hour > 24:
            return None
        half, words, tail = _half(window, found[4])
        return Spoken(_clock(hour, minute, found[3], half), words, tail)
    if found := _TIMES.fullmatch(word.core):
        half, words, tail = _half(window, None)
        first, last = (_clock(int(found[i]), int(found[i + 1]), None, "") for i in (1, 3))
        return Spoken(f"{first} to {last}{f' {half}' if half else ''}", words, tail)
    if found := _HOUR.fullmatch(word.core):
        half, words, tail = _half(window, found[2])
        return Spoken(f"{cardinal(int(found[1]))} {half}", words, tail) if int(found[1]) <= 12 else None
    if len(word.core) <= 2 and word.core.isdigit() and word.core.isascii() and 0 < int(word.core) <= 12:
        half, words, tail = _half(window, None)
        return Spoken(f"{cardinal(int(word.core))} {half}", words, tail) if half else None
    return None


def _half(window: WordWindow, glued: str | None) -> tuple[str, int, int]:
    """Returns AM or PM, the words it takes, and whether the dot after it is its own."""
    if glued:
        return _HALVES[glued.lower()], 1, _own_dot(window, 0) if "." in glued else 0
    following = window.next_in_phrase()
    core = following.core.lower() if following else ""
    if core not in _HALVES:
        return "", 1, 0
    return _HALVES[core], 2, _own_dot(window, 1) if "." in core else 0


def _own_dot(window: WordWindow, index: int) -> int:
    """The dot of `p.m.` is its own, unless a sentence ends with it."""
    word = window.word if not index else window.after(index)
    if word is None or not word.tail.startswith("."):
        return 0
    following = window.after(index + 1)
    ends = following is None or following.core[:1].isupper()
    return 0 if ends and word.tail == "." else 1


def _clock(hour: int, minute: int, seconds: str | None, half: str) -> str:
    if minute or seconds:
        said = f"{cardinal(hour)} {'oh ' if 0 < minute < 10 else ''}{cardinal(minute) if minute else 'hundred'}"
    elif half:
        said = cardinal(hour)
    else:
        said = f"{cardinal(hour)} o'clock" if 0 < hour <= 12 else f"{cardinal(hour)} hundred"
    if seconds:
        said += f" and {cardinal(int(seconds))} second{'' if int(seconds) == 1 else 's'}"
    return f"{said} {half}" if half else said
