"""Parses numbers written in digits, with any usual separators of thousands and decimals."""

from __future__ import annotations

import re

MOST_DIGITS = 15
"""The most digits of a number that is said as a whole; a longer number is said digit by digit."""

_BY_COMMAS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")
_BY_DOTS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{3})+")
_BY_SPACES = re.compile(r"[0-9]{1,3}(?:[ \u00a0\u202f'’][0-9]{3})+")


def is_digits(text: str) -> bool:
    """Whether a text is digits of ASCII and nothing else."""
    return text.isascii() and text.isdigit()


def whole(text: str, separators: str = ",") -> str | None:
    """Returns the digits of a whole number, without separators of thousands; `None` if it is not a whole number."""
    if is_digits(text):
        return text
    is_grouped = (
        ("," in separators and _BY_COMMAS.fullmatch(text))
        or ("." in separators and _BY_DOTS.fullmatch(text))
        or (" " in separators and _BY_SPACES.fullmatch(text))
    )
    return "".join(char for char in text if char.isdigit()) if is_grouped else None


def decimal(text: str, separators: str = ",", point: str = ".") -> tuple[str, str] | None:
    """Returns the digits before and after the decimal point; `None` if it is not a number."""
    head, mark, fraction = text.rpartition(point)
    if not mark:
        found = whole(text, separators)
        return None if found is None else (found, "")
    found = whole(head, separators) if head else "0"
    return (found, fraction) if found is not None and is_digits(fraction) else None
