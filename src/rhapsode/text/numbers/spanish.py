"""Spanish numbers."""

from __future__ import annotations

_ONES = (
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete"
    " dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete"
    " veintiocho veintinueve"
).split()
_TENS = "_ _ _ treinta cuarenta cincuenta sesenta setenta ochenta noventa".split()
_HUNDREDS = (
    "_ ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos"
).split()
_ORDINALS = "_ primero segundo tercero cuarto quinto sexto séptimo octavo noveno décimo undécimo duodécimo".split()
_ORDINAL_TEENS = "decimo{} decimotercero decimocuarto decimoquinto decimosexto decimoséptimo decimoctavo decimonoveno"
_ORDINAL_TENS = (
    "_ décimo vigésimo trigésimo cuadragésimo quincuagésimo sexagésimo septuagésimo octogésimo nonagésimo"
).split()


def cardinal(value: int) -> str:
    """Returns a number below 10**18 as words, in the masculine."""
    words = []
    for size, one, many in ((10**12, "billón", "billones"), (10**6, "millón", "millones")):
        if value >= size:
            count, value = divmod(value, size)
            words.append(f"un {one}" if count == 1 else f"{_shortened(cardinal(count))} {many}")
    if value >= 1000:
        count, value = divmod(value, 1000)
        words.append("mil" if count == 1 else f"{_shortened(_hundreds(count))} mil")
    if value or not words:
        words.append(_hundreds(value))
    return " ".join(words)


def ordinal(value: int) -> str:
    """Returns `primero`, `vigésimo segundo`; from 100 on, people say the cardinal."""
    if value <= 12:
        return _ORDINALS[value] if value else "cero"
    if value < 20:
        return _ORDINAL_TEENS.split()[value - 12]
    if value >= 100:
        return cardinal(value)
    tens, unit = divmod(value, 10)
    return _ORDINAL_TENS[tens] + (f" {_ORDINALS[unit]}" if unit else "")


def _shortened(words: str) -> str:
    """Returns the form before a noun."""
    if words.endswith("veintiuno"):
        return f"{words[:-3]}ún"
    return words.removesuffix("o") if words.endswith("uno") else words


def _hundreds(value: int) -> str:
    if value == 100:
        return "cien"
    if value > 100:
        rest = value % 100
        return _HUNDREDS[value // 100] + (f" {_hundreds(rest)}" if rest else "")
    if value < 30:
        return _ONES[value]
    return _TENS[value // 10] + (f" y {_ONES[value % 10]}" if value % 10 else "")
