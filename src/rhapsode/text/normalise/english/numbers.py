"""English numbers as they are said in a text: amounts, years, single digits."""

from __future__ import annotations

from rhapsode.text.normalise.digits import MOST_DIGITS, decimal
from rhapsode.text.numbers.english import cardinal, ordinal, plural_tens

_NAMES = {"0": "zero"} | {str(digit): cardinal(digit) for digit in range(1, 10)}
_PARTS = {2: ("half", "halves"), 4: ("quarter", "quarters")}


def digits(text: str) -> str:
    """Returns each digit by its name."""
    return " ".join(_NAMES[char] for char in text if char in _NAMES)


def amount(text: str) -> str | None:
    """Returns a number with or without decimals as words; `None`: it is no number."""
    found = decimal(text)
    if found is None:
        return None
    before, after = found
    return number(before) + (f" point {digits(after)}" if after else "")


def number(text: str) -> str:
    """Returns digits as a whole number, or one by one where they begin with a zero or are too many."""
    if len(text) > MOST_DIGITS or (len(text) > 1 and text[0] == "0"):
        return digits(text)
    return cardinal(int(text))


def year(value: int) -> str:
    """Returns a year from 1000 to 2999."""
    century, rest = divmod(value, 100)
    if value % 1000 < 10 or not 1000 <= value < 3000:
        return cardinal(value)
    if not rest:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


def decade(value: int) -> str:
    """Returns `nineteen nineties` for 1990, `nineties` for 90."""
    if value < 100:
        return plural_tens(value)
    century, rest = divmod(value, 100)
    if rest:
        return f"{cardinal(century)} {plural_tens(rest)}"
    return f"{cardinal(value)}s" if value % 1000 == 0 else f"{cardinal(century)} hundreds"


def fraction(above: int, below: int) -> str | None:
    """Returns `three quarters` and the like; `None` for what nobody says so."""
    if not 1 < below <= 100 or not 0 < above < 100:
        return None
    one, many = _PARTS.get(below, (ordinal(below), f"{ordinal(below)}s"))
    return f"{cardinal(above)} {one if above == 1 else many}"
