"""What a model should never see: control characters, odd spaces, broken Unicode."""

from __future__ import annotations

import re
import unicodedata

_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r" ?\n ?")
_PARAGRAPHS = re.compile(r"\n{3,}")


def clean(text: str) -> str:
    """The same words in normal form: NFC, one kind of space, line ends as they were, nothing invisible."""
    text = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = "".join(c for c in text if not _invisible(c))
    return _PARAGRAPHS.sub("\n\n", _LINES.sub("\n", _SPACES.sub(" ", text))).strip()


def _invisible(char: str) -> bool:
    # Cc: controls, Cs: lone surrogates, Co/Cn: private and unassigned; joiners (Cf) carry meaning in some scripts.
    return char not in "\n\t" and (unicodedata.category(char) in ("Cc", "Cs", "Co", "Cn") or char == "\ufeff")
