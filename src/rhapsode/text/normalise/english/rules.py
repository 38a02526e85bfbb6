"""The rules of English, in the order they are tried."""

from __future__ import annotations

from rhapsode.text.normalise.english.amounts import plain, special
from rhapsode.text.normalise.english.clock import time_of_day
from rhapsode.text.normalise.english.dates import date, weekday, year_number
from rhapsode.text.normalise.english.money import money
from rhapsode.text.normalise.english.phones import code, phone
from rhapsode.text.normalise.english.shortenings import abbreviation, roman, sign
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
