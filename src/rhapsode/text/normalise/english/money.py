"""English sums of money."""

from __future__ import annotations

import re
from typing import NamedTuple

from rhapsode.text.normalise.digits import decimal, is_digits
from rhapsode.text.normalise.english.numbers import amount, digits, number
from rhapsode.text.normalise.window import Spoken, WordWindow
from rhapsode.text.numbers.english import cardinal


class Currency(NamedTuple):
    """The names of a currency and of its hundredth."""

    one: str
    many: str
    coin: str = ""
    coins: str = ""


_DOLLAR = Currency("dollar", "dollars", "cent", "cents")
_EURO = Currency("euro", "euros", "cent", "cents")
_POUND = Currency("pound", "pounds", "penny", "pence")
_SIGNS = {
    "$": _DOLLAR,
    "US$": _DOLLAR,
    "€": _EURO,
    "£": _POUND,
    "¥": Currency("yen", "yen"),
    "₹": Currency("rupee", "rupees", "paisa", "paise"),
    "₩": Currency("won", "won"),
    "₽": Currency("ruble", "rubles", "kopeck", "kopecks"),
    "A$": Currency("Australian dollar", "Australian dollars", "cent", "cents"),
    "C$": Currency("Canadian dollar", "Canadian dollars", "cent", "cents"),
}
CODES = {
    "USD": _DOLLAR,
    "EUR": _EURO,
    "GBP": _POUND,
    "JPY": _SIGNS["¥"],
    "INR": _SIGNS["₹"],
    "CHF": Currency("Swiss franc", "Swiss francs", "centime", "centimes"),
    "CNY": Currency("yuan", "yuan"),
    "AUD": _SIGNS["A$"],
    "CAD": _SIGNS["C$"],
}
_SCALES = {"k": "thousand", "K": "thousand", "m": "million", "M": "million", "bn": "billion", "b": "billion"}
_SCALES |= {"B": "billion", "tn": "trillion", "T": "trillion"}
SCALE_WORDS = frozenset(("hundred", "thousand", "million", "billion", "trillion"))
_PER = {"mo": "month", "yr": "year", "hr": "hour", "h": "hour", "wk": "week", "kg": "kilogram", "lb": "pound"}
_PRICE = re.compile(r"(-|–|\+)?((?:US|A|C)?\$|[€£¥₹₩₽])([0-9][0-9,.]*)(k|K|m|M|bn|b|B|tn|T)?(\+)?(?:/([a-z]+))?")
_AFTER = re.compile(r"([0-9][0-9,.]*)([€£$¢]|(?:USD|EUR|GBP|JPY|INR|CHF|CNY|AUD|CAD))")


def money(window: WordWindow) -> Spoken | None:
    """Reads `$12.50`, `£2.4 million`, `120€`, `EUR 50`, `$5k`, `99¢`, `$10/month`."""
    core = window.word.core
    if core[0].isdigit():
        return _after(window)
    if core in CODES:
        return _code_first(window)
    found = _PRICE.fullmatch(core)
    if found is None:
        return None
    sign, symbol, text, scale, more, per = found.groups()
    words, scale = (1, _SCALES[scale]) if scale else _scale(window)
    said = _price(text, _SIGNS[symbol], scale)
    if said is None:
        return None
    said = f"minus {said}" if sign in ("-", "–") else said
    said = f"{said} plus" if more else said
    return Spoken(f"{said} per {_PER.get(per, per)}" if per else said, words)


def _after(window: WordWindow) -> Spoken | None:
    core = window.word.core
    if found := _AFTER.fullmatch(core):
        text, sign = found.groups()
        if sign == "¢":
            count = amount(text)
            return None if count is None else Spoken(f"{count} {'cent' if text == '1' else 'cents'}")
        said = _price(text, CODES.get(sign) or _SIGNS[sign], "")
        return None if said is None else Spoken(said)
    following = window.next_in_phrase() if decimal(core) else None
    scale = following.core if following is not None and following.core in SCALE_WORDS else ""
    code = window.next_in_phrase(2) if scale else following
    if code is None or code.core not in CODES:
        return None
    said = _price(core, CODES[code.core], scale)
    return None if said is None else Spoken(said, 3 if scale else 2)


def _code_first(window: WordWindow) -> Spoken | None:
    following = window.next_in_phrase()
    said = _price(following.core, CODES[window.word.core], "") if following is not None else None
    return None if said is None else Spoken(said, 2)


def _scale(window: WordWindow) -> tuple[int, str]:
    following = window.next_in_phrase()
    return (2, following.core) if following is not None and following.core in SCALE_WORDS else (1, "")


def _price(text: str, currency: Currency, scale: str) -> str | None:
    found = decimal(text)
    if found is None or not is_digits(found[0]):
        return None
    whole, fraction = found
    if scale:
        return f"{amount(text)} {scale} {currency.many}"
    if not currency.coin or len(fraction) > 2:
        return f"{number(whole)}{f' point {digits(fraction)}' if fraction else ''} {currency.many}"
    coins = int(fraction.ljust(2, "0")) if fraction else 0
    units = f"{number(whole)} {currency.one if whole == '1' else currency.many}"
    if not coins:
        return units
    change = f"{cardinal(coins)} {currency.coin if coins == 1 else currency.coins}"
    return change if not whole.strip("0") else f"{units} and {change}"
