"""Writes spoken English numbers in digits, by the rules that the paper on Whisper states (appendix C, step 9)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

_ONES = "one two three four five six seven eight nine".split()  # noqa: SIM905
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()  # noqa: SIM905
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_SCALES = (
    "thousand million billion trillion quadrillion quintillion sextillion septillion octillion nonillion decillion"
)
_ZEROS = ("o", "oh", "zero")
_IRREGULAR = {"first": "one", "second": "two", "third": "three", "fifth": "five", "eighth": "eight"}
_NO_ORDINAL = ("nine",)
"""Whisper's own normaliser leaves `ninth` a word."""
_VALUES: dict[str, tuple[int, str]] = (
    {word: (i, "unit") for i, word in enumerate(_ONES, 1)}
    | {word: (i, "teen") for i, word in enumerate(_TEENS, 10)}
    | {word: (10 * i, "ten") for i, word in enumerate(_TENS, 2)}
    | {"hundred": (100, "hundred")}
    | {word: (1000**i, "scale") for i, word in enumerate(_SCALES.split(), 1)}
)
_SIGNS = {"minus": "-", "negative": "-", "plus": "+", "positive": "+"}
_MONEY = {"pound": "£", "euro": "€", "dollar": "$", "cent": "¢"}
_REPEATS = {"double": 2, "triple": 3}
_WRITTEN = re.compile(r"([£€$¢]?)(\d+(?:\.\d+)?)(%?)")


@dataclass(frozen=True)
class NumberWord:
    """A word that is part of a number: its value, its place in a number, and the ending it gives the digits."""

    value: int
    kind: str
    ending: str = ""


def _known() -> dict[str, NumberWord]:
    """Returns every word of a number by itself, as an ordinal and as a plural."""
    found = {word: NumberWord(*value) for word, value in _VALUES.items()}
    for word, (value, kind) in _VALUES.items():
        stem = word[:-1] + "ie" if word.endswith("y") else "twelf" if word == "twelve" else word
        plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}es" if word == "six" else f"{word}s"
        found[plural] = NumberWord(value, kind, "s")
        if word not in (*_IRREGULAR.values(), *_NO_ORDINAL):
            found[f"{stem}th"] = NumberWord(value, kind, "th")
    endings = {"first": "st", "second": "nd", "third": "rd"}
    for word, base in _IRREGULAR.items():
        found[word] = NumberWord(*_VALUES[base], endings.get(word, "th"))
    return found


_WORDS = _known()


@dataclass
class Number:
    """A number while its words are read: digits that are complete, and the amount that words still add to."""

    digits: str = ""
    done: int = 0
    """What whole thousands, millions ... add up to."""
    open: Fraction | None = None
    """The part below the next scale."""
    last: str = ""
    sign: str = ""
    money: str = ""
    places: str | None = None
    """Digits after the point."""
    out: list[str] = field(default_factory=list)
    """Numbers and words that are complete."""

    @property
    def begun(self) -> bool:
        return bool(self.digits or self.last or self.places is not None)

    def add(self, word: NumberWord) -> None:
        if self.places is not None and word.kind != "scale" and word.kind != "hundred":
            self.places += str(word.value)
        elif word.kind in ("hundred", "scale"):
            self._multiply(word)
        elif self._fits(word):
            self.open = (self.open or Fraction(0)) + word.value
        else:
            self._set_down()
            self.open = Fraction(word.value)
        self.last = word.kind
        if word.ending:
            self.close(word.ending)

    def append(self, digits: str) -> None:
        """Puts digits behind what there is, as in `nine one one`."""
        if self.places is not None:
            self.places += digits
            return
        self._set_down()
        self.digits += digits
        self.last = "digits"

    def write(self, money: str, value: str) -> None:
        """Begins a number that the text has in digits."""
        if self.begun:
            self.close()
        self.money = money
        whole, point, places = value.partition(".")
        self.open, self.last = Fraction(int(whole)), "written"
        self.places = places if point else None

    def close(self, ending: str = "", money: str = "") -> None:
        """Ends the number, if one has begun."""
        if self.begun:
            symbol = money or self.money
            self.out.append(f"{symbol}{self.sign}{self._text()}{ending}")
        self.digits, self.done, self.open, self.last = "", 0, None, ""
        self.sign = self.money = ""
        self.places = None

    def _fits(self, word: NumberWord) -> bool:
        if self.last == "ten":
            return word.kind == "unit"
        return self.last in ("", "hundred", "scale") and not self.digits

    def _multiply(self, word: NumberWord) -> None:
        amount = Fraction(1) if self.open is None else self.open
        if self.places is not None:
            amount = (
                Fraction(f"{self._text()}") if self.digits or self.open is not None else Fraction(f"0.{self.places}")
            )
            self.digits, self.places = "", None
        if word.kind == "scale":
            if self.open is None and self.done:
                amount, self.done = Fraction(self.done), 0
            self.done, self.open = self.done + int(amount * word.value), None
        else:
            self.open = amount * word.value

    def _set_down(self) -> None:
        if self.last and (self.open is not None or self.done):
            self.digits += str(self.done + int(self.open or 0))
        self.done, self.open = 0, None

    def _text(self) -> str:
        amount = "" if self.open is None and not self.done else str(self.done + int(self.open or 0))
        whole = f"{self.digits}{amount}"
        return whole if self.places is None else f"{whole}.{self.places}"


def in_digits(text: str) -> str:
    """Returns lower-case text without punctuation with its numbers in digits: `two dollars` becomes `$2`."""
    text = re.sub(r"\b(\w+) and a half\b", lambda m: f"{m[1]} point five" if _counts(m[1]) else m[0], text)
    text = re.sub(r"(?<=[a-z])(?=\d)|(?<=\d)(?=[a-z])", " ", text)
    text = re.sub(r"(\d)\s+(st|nd|rd|th|s)\b", r"\1\2", text)
    number, words = Number(), text.split()
    at = 0
    while at < len(words):
        at += _read(words, at, number)
    number.close()
    return _finish(" ".join(number.out))


def _counts(word: str) -> bool:
    return word in _WORDS or word in _ZEROS or word[:1].isdigit()


def _read(words: Sequence[str], at: int, number: Number) -> int:
    """Reads the word at a place, with the next one where they belong together; returns how many words were read."""
    word, following = words[at], words[at + 1] if at + 1 < len(words) else ""
    starts = _counts(following)
    if written := _WRITTEN.fullmatch(word):
        if number.places == "" and not written[1] and not written[3] and "." not in written[2]:
            number.append(written[2])  # `three point 14`
        else:
            number.write(written[1], written[2])
        if written[3]:
            number.close("%")
    elif word in _WORDS:
        number.add(_WORDS[word])
    elif word in _ZEROS:
        number.append("0")
    elif word in _REPEATS and (following in _ZEROS or following in _ONES):
        number.append(("0" if following in _ZEROS else str(_WORDS[following].value)) * _REPEATS[word])
        return 2
    elif word == "point" and starts and number.places is None:
        number.places = ""
        number.last = number.last or "digits"
    elif word == "and" and starts and number.last in ("hundred", "scale"):
        return 1
    elif word in _SIGNS and (starts or (following[:1] in "£€$¢" and following[1:2].isdigit())):
        number.close()
        number.sign = _SIGNS[word]
    elif number.begun and (symbol := _MONEY.get(word.removesuffix("s"))):
        number.close(money=symbol)
    elif number.begun and (word == "percent" or (word, following) == ("per", "cent")):
        number.close("%")
        return 1 if word == "percent" else 2
    else:
        number.close()
        number.out.append(word)
    return 1


def _finish(text: str) -> str:
    """Joins sums of money of two coins, writes less than one of a coin as cents, and leaves a lone one as a word."""
    text = re.sub(r"([€£$])(\d+) (?:and )?¢(\d{1,2})(?!\d)", lambda m: f"{m[1]}{m[2]}.{int(m[3]):02d}", text)
    text = re.sub(r"[€£$]0\.(\d{1,2})(?!\d)", lambda m: f"¢{int(m[1])}", text)
    return re.sub(r"(?<![^\s])1(s?)(?![^\s])", r"one\1", text)
