"""German numbers."""

from __future__ import annotations

_ONES = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn"
    " achtzehn neunzehn"
).split()
_TENS = "_ _ zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
_LARGE = ((10**12, "Billion"), (10**9, "Milliarde"), (10**6, "Million"))
_ORDINALS = {1: "erste", 3: "dritte", 7: "siebte", 8: "achte"}


def cardinal(value: int) -> str:
    """Returns a number below 10**15 as words."""
    words = []
    for size, name in _LARGE:
        if value >= size:
            count, value = divmod(value, size)
            plural = name + ("n" if name.endswith("e") else "en")
            words.append(f"eine {name}" if count == 1 else f"{cardinal(count)} {plural}")
    if value or not words:
        words.append(_thousands(value))
    return " ".join(words)


def ordinal(value: int) -> str:
    """Returns the form after an article: `dritte`, `zwanzigste`."""
    small = value % 100
    if 0 < small < 20:
        return (cardinal(value - small) if value > small else "") + _ORDINALS.get(small, f"{cardinal(small)}te")
    return f"{cardinal(value)}ste"


def year(value: int) -> str:
    """Returns a year: from 1100 to 1999 in hundreds."""
    if 1100 <= value < 2000:
        return f"{_below_hundred(value // 100, '')}hundert{_below_hundred(value % 100) if value % 100 else ''}"
    return cardinal(value)


def _thousands(value: int) -> str:
    if value < 1000:
        return _hundreds(value)
    rest = value % 1000
    return f"{_hundreds(value // 1000, one='ein')}tausend{_hundreds(rest) if rest else ''}"


def _hundreds(value: int, one: str = "eins") -> str:
    if value < 100:
        return _below_hundred(value, one)
    rest = value % 100
    return f"{_below_hundred(value // 100, 'ein')}hundert{_below_hundred(rest, one) if rest else ''}"


def _below_hundred(value: int, one: str = "eins") -> str:
    if value == 1:
        return one
    if value < 20:
        return _ONES[value]
    unit = "ein" if value % 10 == 1 else _ONES[value % 10]
    return f"{unit}und{_TENS[value // 10]}" if value % 10 else _TENS[value // 10]
