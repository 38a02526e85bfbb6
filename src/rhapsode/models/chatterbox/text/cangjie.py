"""Chinese characters as the codes of the Cangjie input method, which the multilingual tokenizer has tokens for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from unicodedata import category

from rhapsode.errors import CheckpointError

FILE = "Cangjie5_TC.json"
END = "[cj_.]"
"""The token after a character."""


class Cangjie:
    """Names the tokens of characters."""

    def __init__(self, file: Path) -> None:
        self._codes: dict[str, str] = {}
        taken: dict[str, int] = {}
        for character, code in _entries(file):
            number = taken.get(code, 0)
            taken[code] = number + 1
            self._codes[character] = f"{code}{number or ''}"

    def tokens(self, character: str) -> list[str]:
        """Returns the names of a character's tokens; none for what is no Chinese character."""
        code = self._codes.get(character) if category(character) == "Lo" else None
        return [] if code is None else [*(f"[cj_{letter}]" for letter in code), END]


def _entries(file: Path) -> Iterator[tuple[str, str]]:
    try:
        lines = json.loads(file.read_text("utf-8"))
        pairs = [line.split("\t")[:2] for line in lines]
        yield from [(character, code) for character, code in pairs]
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        raise CheckpointError(f"{file} must be a JSON list of characters and codes with a tab between them.") from None
