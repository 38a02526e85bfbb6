"""Estimates how long a text is when it is spoken."""

from __future__ import annotations

LETTER_S, SYLLABLE_S = 0.065, 0.2
"""Seconds of a character: of an alphabet, and of a script whose characters are syllables or words."""
_SYLLABLES = ((0x3040, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7AF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))


def estimate_s(text: str) -> float:
    """Returns about how many seconds it takes to say a text: right within a factor of two, for most voices."""
    return sum(SYLLABLE_S if _is_syllable(ord(char)) else LETTER_S for char in " ".join(text.split()))


def _is_syllable(code: int) -> bool:
    return any(low <= code <= high for low, high in _SYLLABLES)
