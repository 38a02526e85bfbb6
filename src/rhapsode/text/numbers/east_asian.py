"""Chinese, Japanese and Korean numbers: groups of four digits, each a sum of tens, hundreds and thousands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Digits:
    """The characters of one language's numbers."""

    ones: str
    tens: str
    """Ten, hundred, thousand."""
    groups: tuple[str, ...]
    """Ten thousand and its powers."""
    says_zero: bool = False
    """A gap inside a number is said as one zero: 一百零五."""
    one_before: str = ""
    """Which of ten, hundred and thousand have a one before them."""
    one_group: bool = True
    """Whether there is a one before a ten thousand that begins a number."""


CHINESE = Digits("零一二三四五六七八九", "十百千", ("", "万", "亿", "万亿"), says_zero=True, one_before="百千十")
JAPANESE = Digits("零一二三四五六七八九", "十百千", ("", "万", "億", "兆"))
KOREAN = Digits("영일이삼사오육칠팔구", "십백천", ("", "만", "억", "조"), one_group=False)


def cardinal(value: int, digits: Digits) -> str:
    """Returns a number below 10**16."""
    if not value:
        return digits.ones[0]
    groups: list[int] = []
    while value:
        value, group = divmod(value, 10_000)
        groups.append(group)
    words = ""
    gap = False
    for power in range(len(groups) - 1, -1, -1):
        group = groups[power]
        if not group:
            gap = bool(words)
            continue
        if digits.says_zero and words and (gap or group < 1000):
            words += digits.ones[0]
        is_bare = group == 1 and power == 1 and not words and not digits.one_group
        words += ("" if is_bare else _group(group, digits)) + digits.groups[power]
        gap = False
    if digits is CHINESE and words.startswith("一十"):
        return words[1:]
    return words


def spelled(number: str, digits: Digits) -> str:
    """Returns each digit by itself."""
    return "".join(digits.ones[int(digit)] for digit in number)


def _group(value: int, digits: Digits) -> str:
    words = ""
    gap = False
    for power in (3, 2, 1, 0):
        digit = value // 10**power % 10
        if not digit:
            gap = bool(words)
            continue
        if gap and digits.says_zero:
            words += digits.ones[0]
        gap = False
        name = digits.tens[power - 1] if power else ""
        words += (digits.ones[digit] if digit > 1 or not name or name in digits.one_before else "") + name
    return words


_NATIVE_ONES = ("", "한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉")
_NATIVE_TENS = ("", "열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔")


def korean_native(value: int) -> str:
    """Returns the native number before a counter, from 1 to 99."""
    return "스무" if value == 20 else _NATIVE_TENS[value // 10] + _NATIVE_ONES[value % 10]
