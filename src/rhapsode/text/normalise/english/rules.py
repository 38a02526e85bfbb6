"""The rules of English, in the order they are tried."""

from __future__ import annotations

from rhapsode.text.normalise.english.amounts import plain, special
from rhapsode.text.normalise.english.clock import time_of_day
from rhapsode.text.normalise.english.dates import DATE_WORDS, date, weekday, year_number
from rhapsode.text.normalise.english.money import CODES, money
from rhapsode.text.normalise.english.phones import code, phone
from rhapsode.text.normalise.english.shortenings import SHORTENED, abbreviation, roman, sign
from rhapsode.text.normalise.english.units import measure
from rhapsode.text.normalise.english.web import address, handle
from rhapsode.text.normalise.window import Rule

RULES: tuple[Rule, ...] = (
    address,
    handle,
    abbreviation,
    weekday,
    time_of_day,
    date,
    phone,
    code,
    money,
    measure,
    year_number,
    special,
    plain,
    roman,
    sign,
)


def rules(code: str) -> tuple[Rule, ...]:
    """Returns the rules of English."""
    return RULES


def words(code: str) -> tuple[str, ...]:
    """Returns the words without digits or signs that a rule begins with."""
    return (*DATE_WORDS, *CODES, *SHORTENED)
