"""French numbers, as in France."""

from __future__ import annotations

_ONES = (
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit"
    " dix-neuf"
).split()
_TENS = "_ _ vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt".split()
_LARGE = ((10**12, "billion"), (10**9, "milliard"), (10**6, "million"))


def cardinal(value: int) -> str:
    """Returns a number below 10**15 as words."""
    words = []
    for size, name in _LARGE:
        if value >= size:
            count, value = divmod(value, size)
            words.append(f"{cardinal(count)} {name}{'s' if count > 1 else ''}")
    if value >= 1000:
        count, value = divmod(value, 1000)
        words.append("mille" if count == 1 else f"{_hundreds(count, before_mille=True)} mille")
    if value or not words:
        words.append(_hundreds(value))
    return " ".join(words)


def ordinal(value: int) -> str:
    """Returns `premier`, `deuxième` and so on."""
    if value == 1:
        return "premier"
    word = cardinal(value)
    if word.endswith(("vingts", "cents", "millions", "milliards")):
        word = word[:-1]
    if word.endswith("cinq"):
        return f"{word}uième"
    if word.endswith("neuf"):
        return f"{word[:-1]}vième"
    return f"{word.removesuffix('e')}ième"


def _hundreds(value: int, before_mille: bool = False) -> str:
    count, rest = divmod(value, 100)
    if not count:
        return _below_hundred(rest, before_mille)
    head = "cent" if count == 1 else f"{_ONES[count]} cent"
    if rest:
        return f"{head} {_below_hundred(rest, before_mille)}"
    return head + ("s" if count > 1 and not before_mille else "")


def _below_hundred(value: int, before_mille: bool) -> str:
    if value < 20:
        return _ONES[value]
    tens, unit = divmod(value, 10)
    if tens in (7, 9):
        unit += 10
    if not unit:
        return _TENS[tens] + ("s" if tens == 8 and not before_mille else "")
    if unit in (1, 11) and tens < 8:
        return f"{_TENS[tens]} et {_ONES[unit]}"
    return f"{_TENS[tens]}-{_ONES[unit]}"
