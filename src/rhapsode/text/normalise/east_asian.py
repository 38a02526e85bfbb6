"""Rules of Chinese, Japanese and Korean: numbers, dates, times, money, units."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rhapsode.text.normalise.digits import MOST_DIGITS, decimal, is_digits
from rhapsode.text.normalise.window import Rule, Spoken, WordWindow
from rhapsode.text.numbers.east_asian import CHINESE, JAPANESE, KOREAN, Digits, cardinal, korean_native, spelled

_UNITS = ("km", "m", "cm", "mm", "kg", "g", "km/h", "℃", "°C", "L")


@dataclass(frozen=True)
class EastAsian:
    """The words and signs of one language."""

    digits: Digits
    point: str
    minus: str
    to: str
    percent: str
    """A percentage, with the number in place of `{}`."""
    fraction: str
    """A fraction, with the denominator and then the numerator in place of `{}`."""
    date: tuple[str, str, str]
    clock: tuple[str, str]
    money: dict[str, str]
    units: dict[str, str]
    gap: str = ""
    """What stands between a number and the word after it."""


TABLES = {
    "zh": EastAsian(
        CHINESE,
        *("点", "负", "到", "百分之{}", "{}分之{}"),
        ("年", "月", "日"),
        ("点", "分"),
        {"¥": "元", "￥": "元", "$": "美元", "€": "欧元", "£": "英镑"},
        dict(zip(_UNITS, "公里 米 厘米 毫米 公斤 克 公里每小时 摄氏度 摄氏度 升".split(), strict=True)),
    ),
    "ja": EastAsian(
        JAPANESE,
        *("点", "マイナス", "から", "{}パーセント", "{}分の{}"),
        ("年", "月", "日"),
        ("時", "分"),
        {"¥": "円", "￥": "円", "$": "ドル", "€": "ユーロ", "£": "ポンド"},
        dict(
            zip(
                _UNITS,
                "キロメートル メートル センチメートル ミリメートル キログラム グラム キロメートル毎時 度 度"
                " リットル".split(),
                strict=True,
            )
        ),
    ),
    "ko": EastAsian(
        KOREAN,
        *("점", "마이너스", "에서", "{} 퍼센트", "{}분의 {}"),
        ("년", "월", "일"),
        ("시", "분"),
        {"₩": "원", "$": "달러", "€": "유로", "£": "파운드", "¥": "엔"},
        dict(zip(_UNITS, "킬로미터 미터 센티미터 밀리미터 킬로그램 그램 킬로미터 도 도 리터".split(), strict=True)),
        gap=" ",
    ),
}
_WIDE = str.maketrans("０１２３４５６７８９．，％：－", "0123456789.,%:-")
_NUMBER = re.compile(r"([-−+])?([$€£¥￥₩])?([0-9][0-9,]*(?:\.[0-9]+)?)([^0-9.,]*)")
_ISO = re.compile(r"([12][0-9]{3})([-/.])([01]?[0-9])\2([0-3]?[0-9])")
_TIME = re.compile(r"([0-2]?[0-9]):([0-5][0-9])([가-힣]*)")
_RANGE = re.compile(r"([0-9]{1,8})[-~〜～–]([0-9]{1,8})(%?)([가-힣]*)")
_FRACTION = re.compile(r"([0-9]{1,4})/([0-9]{1,4})([가-힣]*)")
_PHONE = re.compile(r"0[0-9]{1,3}(?:-[0-9]{3,8}){1,2}|\+?[0-9]{2,4}(?:-[0-9]{3,4}){2,3}|0[0-9]{5,}|1[0-9]{10}")
_MEASURES = frozenset("个位只本次天条张件块种名斤倍点间家台辆层杯瓶")
_NATIVE = ("시간", "시", "개", "명", "살", "마리", "권", "잔", "병", "대", "장", "달", "사람", "가지", "번째")
_KOREAN_MONTHS = {6: "유", 10: "시"}


class EastAsianRules:
    """The rules of one language."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._table = TABLES[code]

    def special(self, window: WordWindow) -> Spoken | None:
        """Reads dates, times, ranges, fractions and telephone numbers."""
        core, table = window.word.core.translate(_WIDE), self._table
        if found := _ISO.fullmatch(core):
            return self._date(int(found[1]), int(found[3]), int(found[4]))
        if found := _TIME.fullmatch(core):
            return Spoken(self._time(int(found[1]), int(found[2])) + found[3])
        if _PHONE.fullmatch(core) and not (self._code == "zh" and self._next(window) == "年"):
            return Spoken(" ".join(spelled(group, table.digits) for group in core.lstrip("+").split("-")))
        if found := _FRACTION.fullmatch(core):
            return Spoken(table.fraction.format(self._whole(found[2]), self._whole(found[1])) + found[3])
        if found := _RANGE.fullmatch(core):
            last = self._whole(found[2])
            last = table.percent.format(last) if found[3] else last + (table.gap + found[4] if found[4] else "")
            return Spoken(f"{self._whole(found[1])}{table.to}{table.gap}{last}")
        return None

    def number(self, window: WordWindow) -> Spoken | None:
        """Reads a number with its sign, its currency and what follows it."""
        found = _NUMBER.fullmatch(window.word.core.translate(_WIDE))
        if found is None or decimal(found[3]) is None:
            return None
        sign, currency, text, rest = found.groups()
        minus = self._table.minus + self._table.gap if sign in ("-", "−") else ""
        if currency and currency in self._table.money:
            text = text.rstrip("0").rstrip(".") if "." in text else text
            return Spoken(minus + self._amount(text) + self._table.gap + self._table.money[currency] + rest)
        if rest:
            said = self._with_rest(text, rest)
            return None if said is None else Spoken(minus + said)
        following = self._next(window)
        if self._code == "zh" and following == "年" and is_digits(text) and len(text) in (2, 4):
            return Spoken(spelled(text, self._table.digits))
        if self._code == "zh" and text == "2" and following[:1] in _MEASURES:
            return Spoken("两")
        spaced = window.after() if self._code == "ko" else None
        if spaced is not None and (native := _native(text, spaced.core)):
            return Spoken(native)
        return Spoken(minus + self._amount(text))

    def _with_rest(self, text: str, rest: str) -> str | None:
        table = self._table
        if rest[0] in "%％":
            return table.percent.format(self._amount(text)) + rest[1:]
        for unit in sorted(table.units, key=len, reverse=True):
            if rest.startswith(unit) and not rest[len(unit) :][:1].isascii():
                return self._amount(text) + table.gap + table.units[unit] + rest[len(unit) :]
            if rest == unit:
                return self._amount(text) + table.gap + table.units[unit]
        if self._code != "ko":
            return None
        if native := _native(text, rest):
            return f"{native} {rest}"
        if rest.startswith("월") and is_digits(text) and int(text) in _KOREAN_MONTHS:
            return _KOREAN_MONTHS[int(text)] + rest
        if not "가" <= rest[0] <= "힣":
            return None
        return self._amount(text) + ("" if rest[0] in "년월일" else " ") + rest

    def _amount(self, text: str) -> str:
        whole, fraction = decimal(text) or ("0", "")
        said = self._whole(whole)
        return said + (self._table.point + spelled(fraction, self._table.digits) if fraction else "")

    def _whole(self, text: str) -> str:
        if len(text) > MOST_DIGITS or (len(text) > 1 and text[0] == "0"):
            return spelled(text, self._table.digits)
        return cardinal(int(text), self._table.digits)

    def _date(self, year: int, month: int, day: int) -> Spoken | None:
        if not 1 <= month <= 12 or not 1 <= day <= 31:
            return None
        numbers = self._table.digits
        said = spelled(str(year), numbers) if self._code == "zh" else cardinal(year, numbers)
        of_year, of_month, of_day = self._table.date
        gap = self._table.gap
        said_month = _KOREAN_MONTHS.get(month, "") if self._code == "ko" else ""
        said_month = said_month or cardinal(month, numbers)
        return Spoken(f"{said}{of_year}{gap}{said_month}{of_month}{gap}{cardinal(day, numbers)}{of_day}")

    def _time(self, hour: int, minute: int) -> str:
        of_hour, of_minute = self._table.clock
        gap, numbers = self._table.gap, self._table.digits
        said = korean_native(hour) if self._code == "ko" and 0 < hour <= 12 else cardinal(hour, numbers)
        said = f"{said}{gap}{of_hour}"
        if not minute:
            return said
        zero = numbers.ones[0] if self._code == "zh" and minute < 10 else ""
        return f"{said}{gap}{zero}{cardinal(minute, numbers)}{gap}{of_minute}"

    def _next(self, window: WordWindow) -> str:
        following = window.after(unspaced=True) if not window.word.tail else None
        return "" if following is None or following.lead else following.core


def rules(code: str) -> tuple[Rule, ...]:
    """Returns the rules of a language, in the order they are tried."""
    of = EastAsianRules(code)
    return of.special, of.number


def words(code: str) -> tuple[str, ...]:
    """Returns the words without digits or signs that a rule begins with: none."""
    return ()


def _native(text: str, rest: str) -> str:
    """Returns a Korean native number, where the counter after it asks for one."""
    if not is_digits(text) or not 0 < int(text) < 100:
        return ""
    return korean_native(int(text)) if rest.startswith(_NATIVE) else ""
