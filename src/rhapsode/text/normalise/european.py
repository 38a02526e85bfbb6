"""Rules of German, French, Spanish, Italian, Portuguese and Russian: numbers, dates, times, money, units, addresses."""

from __future__ import annotations

import re

from rhapsode.text.normalise.agreement import agreed
from rhapsode.text.normalise.digits import MOST_DIGITS, decimal, is_digits
from rhapsode.text.normalise.european_dates import DateRules
from rhapsode.text.normalise.european_tables import OWN_SIGNS, RUSSIAN_PARTS, RUSSIAN_UNITS, TABLES, Noun
from rhapsode.text.normalise.window import Rule, Spoken, WordWindow
from rhapsode.text.numbers.russian import cardinal as russian_cardinal
from rhapsode.text.numbers.russian import plural

_SIGNED = re.compile(r"([-–−+])?([0-9][0-9.,'’\u00a0\u202f]*)([^0-9\s.,'’-][^0-9\s]*)?")
_PREFIXED = re.compile(r"([-–−])?(R\$|[$€£₽])([0-9][0-9.,]*)")
_RANGE = re.compile(r"([0-9]{1,6})[-–]([0-9]{1,6})(%)?")
_ORDINAL = re.compile(r"([0-9]{1,6})(?:er|re|ère|e|ème|\.?[ºª°]|-?(?:й|я|е|го))")
_PHONE = re.compile(r"\+?[0-9]{2,4}(?:[-/][0-9]{2,8}){2,5}|\+[0-9]{8,15}|0[0-9]{2,5}[-/][0-9]{4,10}")
_HOST = re.compile(r"(?:https?://)?(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,6}(?:/[^\s]*)?")
_MAIL = re.compile(r"[A-Za-z0-9._+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,6}")
MOST_GROUPS = 5
_PIECE = re.compile(r"[^\W\d_]+|[0-9]+|.")


class EuropeanRules:
    """The rules of one language."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._table = TABLES[code]
        self._signs = dict.fromkeys(OWN_SIGNS[code], "own") | {"EUR": "€", "USD": "$", "GBP": "£"}

    def address(self, window: WordWindow) -> Spoken | None:
        """Reads web addresses and e-mail addresses."""
        core, table = window.word.core, self._table
        if not (_MAIL.fullmatch(core) or (_HOST.fullmatch(core) and not decimal(core, ".", ","))):
            return None
        signs = {"@": table.at, ".": table.dot, "/": table.slash, "-": table.dash, ":": "", "_": "_"}
        rest = core.removeprefix("https://").removeprefix("http://").rstrip("/")
        pieces = [self.whole(piece) if is_digits(piece) else signs.get(piece, piece) for piece in _PIECE.findall(rest)]
        return Spoken(" ".join(piece for piece in pieces if piece))

    def abbreviation(self, window: WordWindow) -> Spoken | None:
        word = window.word
        said = self._table.abbreviations.get(word.core) if word.tail.startswith(".") or word.core == "Mme" else None
        if said is None:
            return None
        following = window.after()
        goes_on = following is not None and (word.core[0].isupper() or not following.core[:1].isupper())
        return Spoken(said, tail=int(word.tail.startswith(".") and (goes_on or len(word.tail) > 1)))

    def money(self, window: WordWindow) -> Spoken | None:
        """Reads `12,50 €`, `€12,50`, `100 EUR`, `R$ 50`."""
        core = window.word.core
        if found := _PREFIXED.fullmatch(core):
            said = self._price(found[3], self._kind(found[2]))
            minus = f"{self._table.minus} " if found[1] else ""
            return None if said is None else Spoken(minus + said)
        found = _SIGNED.fullmatch(core)
        if found is None:
            return self._sign_first(window)
        sign = found[3] or ""
        text, words = (found[2], 1) if sign else self._grouped(found[2], window)
        following = None if sign else window.next_in_phrase(words)
        kind = self._kind(sign or (following.core if following is not None else ""))
        said = self._price(text, kind) if kind else None
        if said is None or following is None:
            return None if said is None else Spoken(said, words)
        dotted = following.core in ("руб", "р") and following.tail == "."
        then = window.after(words + 1) if dotted else None
        return Spoken(said, words + 1, tail=int(then is not None and not then.core[:1].isupper()))

    def measure(self, window: WordWindow) -> Spoken | None:
        """Reads `5 km`, `-3°C`, `40 %`, `3,5%`."""
        found = _SIGNED.fullmatch(window.word.core)
        if found is None:
            return None
        sign, text, unit = found.groups()
        text, words = (text, 1) if unit else self._grouped(text, window)
        following = None if unit else window.next_in_phrase(words)
        after = following.core if following is not None else ""
        noun = self._unit(unit or after)
        said = self.amount(text, noun)
        if said is None or (unit and noun is None):
            return None
        minus = f"{self._table.minus} " if sign in ("-", "–", "−") and window.word.spaced else ""
        if noun is None and after:
            said = agreed(said, after, self._code)
        return Spoken(minus + said, words + 1 if noun and not unit else words)

    def _grouped(self, text: str, window: WordWindow) -> tuple[str, int]:
        """Returns a number whose thousands are separated by spaces, as in French and Russian, and its words."""
        words = 1
        if self._code not in ("fr", "ru") or not is_digits(text) or len(text) > 3:
            return text, words
        while words < MOST_GROUPS and (following := window.next_in_phrase(words)) is not None:
            if len(following.core.partition(",")[0]) != 3 or not is_digits(following.core.replace(",", "", 1)):
                break
            text += following.core
            words += 1
        return text, words

    def special(self, window: WordWindow) -> Spoken | None:
        """Reads ranges, ordinals and telephone numbers."""
        core, table = window.word.core, self._table
        if found := _RANGE.fullmatch(core):
            noun = table.units["%"] if found[3] else None
            to = "-" if self._code == "ru" else f" {table.to} "
            return Spoken(f"{self.whole(found[1])}{to}{self.amount(found[2], noun)}")
        if found := _ORDINAL.fullmatch(core):
            return Spoken(self._ordinal(int(found[1]), core))
        if _PHONE.fullmatch(core):
            groups = [self.digits(group) for group in re.split(r"[-/+]", core) if group]
            return Spoken(", ".join(groups))
        return None

    # --- words of numbers ---

    def digits(self, text: str) -> str:
        return " ".join(self._table.cardinal(int(char)) for char in text if is_digits(char))

    def whole(self, text: str) -> str:
        """Returns a whole number as words; digit by digit if it begins with a zero or is too long."""
        if len(text) > MOST_DIGITS or (len(text) > 1 and text[0] == "0"):
            return self.digits(text)
        return self._table.cardinal(int(text))

    def amount(self, text: str, noun: Noun | None = None) -> str | None:
        """Returns a number as words, with the noun in the form that follows it; `None` if it is not a number."""
        found = decimal(text, "." if "," in text or text.count(".") > 1 or _is_grouped(text) else " ", ",")
        found = found or decimal(text, " ,", ".")
        if found is None:
            return None
        whole, fraction = found
        if not fraction:
            return self._counted(whole, noun)
        if self._code == "ru" and len(fraction) <= 3 and len(whole) <= MOST_DIGITS:
            said = _russian_fraction(int(whole), fraction)
        else:
            after = self.digits(fraction) if fraction[0] == "0" or len(fraction) > 2 else self.whole(fraction)
            after = self.digits(fraction) if self._code == "de" else after
            said = f"{self.whole(whole)} {self._table.point} {after}"
        return f"{said} {noun[1]}" if noun else said

    def _counted(self, whole: str, noun: Noun | None) -> str:
        said = self.whole(whole)
        if noun is None or len(whole) > MOST_DIGITS:
            return said
        if self._code == "ru":
            feminine = noun[0].endswith(("а", "я")) and noun[0] != "рубля"
            return f"{russian_cardinal(int(whole), feminine)} {plural(int(whole), noun)}"
        return f"{_with_ending(said, self._table.one_before)} {noun[0] if int(whole) == 1 else noun[2]}"

    def _price(self, text: str, kind: str) -> str | None:
        found = decimal(text, ".", ",") or decimal(text, ",", ".")
        if found is None or not kind:
            return None
        unit, coin = self._table.money[kind]
        whole, fraction = found
        if len(fraction) > 2:
            return self.amount(text, unit)
        units = self._counted(whole, unit)
        coins = int(fraction.ljust(2, "0")) if fraction else 0
        if not coins:
            return units
        change = self._counted(str(coins), coin)
        if not whole.strip("0"):
            return change
        joint = " " if self._code == "ru" else f" {self._table.and_} "
        return units + joint + change

    def _sign_first(self, window: WordWindow) -> Spoken | None:
        kind = self._kind(window.word.core) if window.word.core in (*self._signs, "€", "$", "£") else ""
        following = window.next_in_phrase() if kind else None
        said = self._price(following.core, kind) if following is not None else None
        return None if said is None else Spoken(said, 2)

    def _kind(self, sign: str) -> str:
        return sign if sign in ("€", "$", "£") else self._signs.get(sign, "")

    def _unit(self, symbol: str) -> Noun | None:
        return self._table.units.get(RUSSIAN_UNITS.get(symbol, symbol) if self._code == "ru" else symbol)

    def _ordinal(self, value: int, core: str) -> str:
        said = self._table.ordinal(value)
        if self._code == "ru":
            endings = {"я": "ая", "е": "ое", "го": "ого"}
            ending = next((new for old, new in endings.items() if core.endswith(old)), "")
            if value % 10 == 3 and value % 100 != 13 and ending:
                return said[:-2] + {"ая": "ья", "ое": "ье", "ого": "ьего"}[ending]
            return said[:-2] + ending if ending else said
        if self._code == "es" and core.endswith("er"):
            return said[:-1]
        if core.endswith(("ª", "re", "ère")):
            return "première" if self._code == "fr" else f"{said[:-1]}a"
        return said


def rules(code: str) -> tuple[Rule, ...]:
    """Returns the rules of a language, in the order they are tried."""
    of = EuropeanRules(code)
    dates = DateRules(code, of.whole)
    return (
        of.address,
        of.abbreviation,
        dates.time_of_day,
        dates.date,
        dates.year,
        of.special,
        of.money,
        of.measure,
    )


def words(code: str) -> tuple[str, ...]:
    """Returns the words without digits or signs that a rule begins with."""
    return (*TABLES[code].abbreviations, *OWN_SIGNS[code], "EUR", "USD", "GBP")


def _is_grouped(text: str) -> bool:
    head, _, tail = text.rpartition(".")
    return len(tail) == 3 and is_digits(head) and len(head) <= 3


def _with_ending(said: str, endings: dict[str, str]) -> str:
    for ending, new in endings.items():
        if said.endswith(ending):
            return said.removesuffix(ending) + new
    return said


def _russian_fraction(whole: int, fraction: str) -> str:
    one, many = RUSSIAN_PARTS[len(fraction)]
    part = int(fraction)
    head = f"{russian_cardinal(whole, feminine=True)} {'целая' if whole % 10 == 1 and whole % 100 != 11 else 'целых'}"
    is_one = part % 10 == 1 and part % 100 != 11
    return f"{head} {russian_cardinal(part, feminine=True)} {one if is_one else many}"
