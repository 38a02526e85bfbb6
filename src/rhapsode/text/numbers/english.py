"""English numbers."""

from __future__ import annotations

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
).split()
_TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
_SCALES = ("", " thousand", " million", " billion", " trillion", " quadrillion")
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}


def cardinal(value: int) -> str:
    """Returns a number below 10**18 as words, without 'and'."""
    if value < 1000:
        return _hundreds(value)
    groups = []
    scale = 0
    while value:
        value, group = divmod(value, 1000)
        if group:
            groups.append(_hundreds(group) + _SCALES[scale])
        scale += 1
    return " ".join(reversed(groups))


def ordinal(value: int) -> str:
    """Returns `first`, `twenty-second` and so on."""
    head, hyphen, last = cardinal(value).rpartition("-")
    if not hyphen:
        head, hyphen, last = cardinal(value).rpartition(" ")
    return head + hyphen + (_ORDINALS.get(last) or (f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"))


def plural_tens(value: int) -> str:
    """Returns the name of a decade: `nineties` for 90."""
    word = cardinal(value)
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


def _hundreds(value: int) -> str:
    if value >= 100:
        rest = f" {_hundreds(value % 100)}" if value % 100 else ""
        return f"{_ONES[value // 100]} hundred{rest}"
    if value < 20:
        return _ONES[value]
    return _TENS[value // 10] + (f"-{_ONES[value % 10]}" if value % 10 else "")
