"""Russian numbers, in the nominative."""

from __future__ import annotations

_ONES = (
    "ноль один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать четырнадцать"
    " пятнадцать шестнадцать семнадцать восемнадцать девятнадцать"
).split()
_FEMININE = {1: "одна", 2: "две"}
_TENS = "_ _ двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто".split()
_HUNDREDS = "_ сто двести триста четыреста пятьсот шестьсот семьсот восемьсот девятьсот".split()
_LARGE = (
    (10**12, ("триллион", "триллиона", "триллионов"), False),
    (10**9, ("миллиард", "миллиарда", "миллиардов"), False),
    (10**6, ("миллион", "миллиона", "миллионов"), False),
    (1000, ("тысяча", "тысячи", "тысяч"), True),
)
_ORDINALS = (
    "нулевой первый второй третий четвёртый пятый шестой седьмой восьмой девятый десятый одиннадцатый двенадцатый"
    " тринадцатый четырнадцатый пятнадцатый шестнадцатый семнадцатый восемнадцатый девятнадцатый"
).split()
_ORDINAL_TENS = (
    "_ _ двадцатый тридцатый сороковой пятидесятый шестидесятый семидесятый восьмидесятый девяностый"
).split()
_ORDINAL_HUNDREDS = (
    "_ сотый двухсотый трёхсотый четырёхсотый пятисотый шестисотый семисотый восьмисотый девятисотый"
).split()
_THOUSANDTH = {1: "тысячный", 2: "двухтысячный", 3: "трёхтысячный"}


def cardinal(value: int, feminine: bool = False) -> str:
    """Returns a number below 10**15 as words."""
    words: list[str] = []
    for size, names, is_feminine in _LARGE:
        if value >= size:
            count, value = divmod(value, size)
            head = "" if count == 1 and size == 1000 and not words else f"{_hundreds(count, is_feminine)} "
            words.append(head + plural(count, names))
    if value or not words:
        words.append(_hundreds(value, feminine))
    return " ".join(words)


def ordinal(value: int) -> str:
    """Returns `первый`, `двадцать второй`, in the masculine nominative; from 4000 on whole thousands are cardinals."""
    if value < 20:
        return _ORDINALS[value]
    for size, names in ((100, _ORDINAL_TENS), (1000, _ORDINAL_HUNDREDS)):
        step = size // 10
        if value % size == value and value % step == 0:
            return names[value // step]
    for size in (1000, 100, 10):
        head, rest = value - value % size, value % size
        if rest and head:
            return f"{cardinal(head)} {ordinal(rest)}"
    return _THOUSANDTH.get(value // 1000, cardinal(value))


def genitive(words: str) -> str:
    """Returns an ordinal with its last word in the genitive, which dates and years need."""
    head, space, last = words.rpartition(" ")
    return head + space + (f"{last[:-2]}ьего" if last == "третий" else f"{last[:-2]}ого")


def plural(count: int, names: tuple[str, str, str]) -> str:
    """Returns the form of a noun after a number."""
    if count % 10 == 1 and count % 100 != 11:
        return names[0]
    return names[1] if 2 <= count % 10 <= 4 and not 12 <= count % 100 <= 14 else names[2]


def _hundreds(value: int, feminine: bool) -> str:
    hundreds, rest = divmod(value, 100)
    words = [_HUNDREDS[hundreds]] if hundreds else []
    if rest >= 20:
        words.append(_TENS[rest // 10])
        rest %= 10
    if rest or not words:
        words.append(_FEMININE.get(rest, _ONES[rest]) if feminine else _ONES[rest])
    return " ".join(words)
