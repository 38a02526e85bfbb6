"""Portuguese numbers, as in Brazil."""

from __future__ import annotations

_ONES = (
    "zero um dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze dezesseis dezessete dezoito"
    " dezenove"
).split()
_TENS = "_ _ vinte trinta quarenta cinquenta sessenta setenta oitenta noventa".split()
_HUNDREDS = ("_ cento duzentos trezentos quatrocentos quinhentos seiscentos setecentos oitocentos novecentos").split()
_LARGE = (
    (10**12, "trilhão", "trilhões"),
    (10**9, "bilhão", "bilhões"),
    (10**6, "milhão", "milhões"),
    (1000, "mil", "mil"),
)
_ORDINALS = "_ primeiro segundo terceiro quarto quinto sexto sétimo oitavo nono".split()
_ORDINAL_TENS = (
    "_ décimo vigésimo trigésimo quadragésimo quinquagésimo sexagésimo septuagésimo octogésimo nonagésimo"
).split()


def cardinal(value: int) -> str:
    """Returns a number below 10**15 as words, in the masculine."""
    words: list[str] = []
    for size, one, many in _LARGE:
        if value >= size:
            count, value = divmod(value, size)
            said = one if size == 1000 and count == 1 else f"{_hundreds(count)} {one if count == 1 else many}"
            words.append(f"e {said}" if words and _is_joined(count) and not value else said)
    if value or not words:
        words.append(f"e {_hundreds(value)}" if words and _is_joined(value) else _hundreds(value))
    return " ".join(words)


def _is_joined(value: int) -> bool:
    """Whether the last group of a number has an 'e' before it."""
    return value < 100 or value % 100 == 0


def ordinal(value: int) -> str:
    """Returns `primeiro`, `vigésimo segundo`; from 100 on, people say the cardinal."""
    if value >= 100 or not value:
        return cardinal(value)
    tens, unit = divmod(value, 10)
    return " ".join(word for word in (_ORDINAL_TENS[tens] if tens else "", _ORDINALS[unit] if unit else "") if word)


def _hundreds(value: int) -> str:
    if value == 100:
        return "cem"
    if value > 100:
        rest = value % 100
        return _HUNDREDS[value // 100] + (f" e {_hundreds(rest)}" if rest else "")
    if value < 20:
        return _ONES[value]
    return _TENS[value // 10] + (f" e {_ONES[value % 10]}" if value % 10 else "")
