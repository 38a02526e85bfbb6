"""Removes what a model should never see: control characters, unusual spaces, malformed Unicode."""

from __future__ import annotations

import re
import unicodedata

MAX_MARKS = 30
"""Combining marks kept after one letter, as in Unicode's stream-safe text format. No language needs more, and the time
to normalise a run of marks grows with the square of its length."""

_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r" ?\n ?")
_PARAGRAPHS = re.compile(r"\n{3,}")
# By their class these four characters are starters or one mark, but they decompose into two marks.
_DOUBLE_MARKS = frozenset("\u0344\u0f73\u0f75\u0f81")


def clean(text: str) -> str:
    """Returns the same words in normal form: NFC, one kind of space, line ends kept, nothing invisible."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = normalise("".join(c for c in text if not _is_invisible(c)))
    return _PARAGRAPHS.sub("\n\n", _LINES.sub("\n", _SPACES.sub(" ", text))).strip()


def normalise(text: str) -> str:
    """Returns the text in Unicode's NFC, in linear time: marks after the first `MAX_MARKS` of a letter are dropped."""
    if text.isascii():
        return text
    # Normalising may take a letter apart into more marks, so the limit is applied again to the result.
    return _limit_marks(unicodedata.normalize("NFC", _limit_marks(text)))


def well_formed(text: str) -> str:
    """Returns the text with surrogate pairs joined and lone surrogates dropped, so that it can be encoded."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


def is_speakable(text: str) -> bool:
    """Tells whether there is anything to say: at least one letter or digit."""
    return any(map(str.isalnum, text))


def _is_invisible(char: str) -> bool:
    # Cc: controls, Cs: lone surrogates, Co/Cn: private and unassigned; joiners (Cf) carry meaning in some scripts.
    return char not in "\n\t" and (unicodedata.category(char) in ("Cc", "Cs", "Co", "Cn") or char == "\ufeff")


def _limit_marks(text: str) -> str:
    kept = []
    run = 0
    for char in text:
        run = run + 1 if unicodedata.combining(char) or char in _DOUBLE_MARKS else 0
        if run <= MAX_MARKS:
            kept.append(char)
    return "".join(kept)
