"""Dates, years and times of day in German, French, Spanish, Italian, Portuguese and Russian."""

from __future__ import annotations

import re
from collections.abc import Callable

from rhapsode.text.normalise.digits import is_digits
from rhapsode.text.normalise.european_tables import TABLES
from rhapsode.text.normalise.window import Spoken, WordWindow
from rhapsode.text.numbers import german, russian

_ISO = re.compile(r"([12][0-9]{3})-([01][0-9])-([0-3][0-9])")
_DATE = re.compile(r"([0-3]?[0-9])([./-])([01]?[0-9])\2([12][0-9]{3})")
_TIME = re.compile(r"([0-2]?[0-9])(?:[:h]|\.(?=[0-9]{2}$))([0-5][0-9])|([0-2]?[0-9])h")
_DAY = re.compile(r"([0-3]?[0-9])(?:er|º|°|-?е|-?го)?")
_DATIVE = frozenset("am vom zum dem den bis ab seit".split())
_YEAR_BEFORE = frozenset("im jahr jahre seit von bis ab um anno jahres".split())
_RUSSIAN_YEARS = {"году": "ом", "года": "ого", "год": "ый", "г": "ого"}


class DateRules:
    """The rules of one language."""

    def __init__(self, code: str, whole: Callable[[str], str]) -> None:
        self._code = code
        self._table = TABLES[code]
        self._whole = whole
        self._months = {name.lower(): name for name in self._table.months}

    def time_of_day(self, window: WordWindow) -> Spoken | None:
        """Reads `14:30`, `14h30` in French and Portuguese, `14.30 Uhr`."""
        core = window.word.core
        found = _TIME.fullmatch(core)
        if found is None or ("h" in core and self._code not in ("fr", "pt", "es")):
            return None
        hour, minute = int(found[1] or found[3]), int(found[2] or 0)
        if hour > 24:
            return None
        is_clock = False
        if self._code == "de" or "." in core:
            following = window.next_in_phrase()
            is_clock = following is not None and following.core == "Uhr"
            if "." in core and not is_clock:
                return None
        return Spoken(self._clock(hour, minute), 2 if is_clock else 1)

    def date(self, window: WordWindow) -> Spoken | None:
        """Reads `2026-11-15`, `15.11.2026`, `15/11/2026`, `3. März 2024`, `1er mai`."""
        core = window.word.core
        if found := _ISO.fullmatch(core):
            return self._numeric(int(found[3]), int(found[2]), found[1], window)
        if found := _DATE.fullmatch(core):
            return self._numeric(int(found[1]), int(found[3]), found[4], window)
        found = _DAY.fullmatch(core)
        if found is None or not 1 <= int(found[1]) <= 31:
            return None
        return self._with_month(int(found[1]), window)

    def year(self, window: WordWindow) -> Spoken | None:
        """Reads German years before 2000 in hundreds, and Russian ones as ordinals."""
        core = window.word.core
        if not is_digits(core) or len(core) != 4 or not 1100 <= int(core) < 2100:
            return None
        if self._code == "ru":
            following = window.next_in_phrase()
            ending = _RUSSIAN_YEARS.get(following.core) if following is not None else None
            return None if ending is None else Spoken(_russian_year(int(core), ending))
        before = window.before()
        if self._code != "de" or before is None:
            return None
        is_year = before.core.lower() in _YEAR_BEFORE or before.core in self._table.months
        return Spoken(german.year(int(core))) if is_year else None

    # --- words ---

    def _with_month(self, day: int, window: WordWindow) -> Spoken | None:
        word = window.word
        is_german = self._code == "de"
        if (word.tail != ".") if is_german else bool(word.tail):
            return None
        following = window.after()
        if following is not None and self._table.of.strip() and following.core == "de" and not following.tail:
            following = window.after(2)
        month = self._months.get(following.core.lower()) if following is not None else None
        if following is None or month is None or (is_german and not following.core[0].isupper()):
            return None
        return Spoken(self._day(day, window), 1, tail=int(is_german))

    def _numeric(self, day: int, month: int, year: str, window: WordWindow) -> Spoken | None:
        if not 1 <= day <= 31 or not 1 <= month <= 12:
            return None
        said_year = german.year(int(year)) if self._code == "de" else self._whole(year)
        if self._code == "ru":
            following = window.next_in_phrase()
            has_word = following is not None and following.core in _RUSSIAN_YEARS
            said_year = _russian_year(int(year), "ого") + ("" if has_word else " года")
        return Spoken(self._table.of.join((self._day(day, window), self._table.months[month - 1], said_year)))

    def _day(self, day: int, window: WordWindow) -> str:
        if self._code == "de":
            before = window.before()
            word = before.core.lower() if before is not None else ""
            said = german.ordinal(day)
            return said if word in ("der", "die", "das") else f"{said}n" if word in _DATIVE else f"{said}r"
        if self._code == "ru":
            return russian.genitive(russian.ordinal(day))
        if day == 1 and self._code != "es":
            return {"fr": "premier", "it": "primo", "pt": "primeiro"}[self._code]
        return self._table.cardinal(day)

    def _clock(self, hour: int, minute: int) -> str:
        table = self._table
        said = table.cardinal(hour)
        for ending, new in table.one_hour.items():
            said = said.removesuffix(ending) + new if said.endswith(ending) else said
        minutes = table.cardinal(minute)
        match self._code:
            case "de":
                return f"{said} Uhr {minutes}" if minute else f"{said} Uhr"
            case "fr":
                hours = f"{said} heure{'s' if hour > 1 else ''}"
                return f"{hours} {minutes}" if minute else hours
            case "ru":
                padded = f"ноль {minutes}" if 0 < minute < 10 else minutes
                return f"{said} {padded}" if minute else f"{said} {russian.plural(hour, table.units['h'])}"
            case "pt":
                return f"{said} e {minutes}" if minute else f"{said} hora{'s' if hour > 1 else ''}"
        return f"{said} {table.and_} {minutes}" if minute else said


def _russian_year(value: int, ending: str) -> str:
    head, space, last = russian.ordinal(value).rpartition(" ")
    if ending == "ый":
        return head + space + last
    if last == "третий":
        return f"{head}{space}треть{'ем' if ending == 'ом' else 'его'}"
    return f"{head}{space}{last[:-2]}{ending}"
