"""Italian numbers."""

from __future__ import annotations

_ONES = (
    "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici"
    " diciassette diciotto diciannove"
).split()
_TENS = "_ _ venti trenta quaranta cinquanta sessanta settanta ottanta novanta".split()
_LARGE = ((10**12, "bilione", "bilioni"), (10**9, "miliardo", "miliardi"), (10**6, "milione", "milioni"))
_ORDINALS = "_ primo secondo terzo quarto quinto sesto settimo ottavo nono decimo".split()


def cardinal(value: int) -> str:
    """Returns a number below 10**15 as words."""
    words = []
    for size, one, many in _LARGE:
        if value >= size:
            count, value = divmod(value, size)
            words.append(f"un {one}" if count == 1 else f"{cardinal(count)} {many}")
    if value or not words:
        words.append(_accented(_thousands(value)))
    return " ".join(words)


def ordinal(value: int) -> str:
    """Returns `primo`, `ventesimo` and so on, in the masculine."""
    if 0 < value <= 10:
        return _ORDINALS[value]
    word = cardinal(value)
    if word.endswith("tré"):
        return f"{word[:-1]}eesimo"
    if word.endswith("mila"):
        return f"{word[:-1]}lesimo"
    return f"{word}esimo" if word.endswith("sei") else f"{word[:-1]}esimo"


def _accented(word: str) -> str:
    return f"{word[:-1]}é" if word.endswith("tre") and word != "tre" else word


def _thousands(value: int) -> str:
    count, rest = divmod(value, 1000)
    head = "" if not count else "mille" if count == 1 else f"{_hundreds(count)}mila"
    return head + (_hundreds(rest) if rest or not count else "")


def _hundreds(value: int) -> str:
    count, rest = divmod(value, 100)
    if not count:
        return _below_hundred(rest)
    head, tail = "cento" if count == 1 else f"{_ONES[count]}cento", _below_hundred(rest) if rest else ""
    return (head[:-1] if tail.startswith("o") else head) + tail


def _below_hundred(value: int) -> str:
    if value < 20:
        return _ONES[value]
    tens, unit = _TENS[value // 10], value % 10
    return (tens[:-1] if unit in (1, 8) else tens) + (_ONES[unit] if unit else "")
