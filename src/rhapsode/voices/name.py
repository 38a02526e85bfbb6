"""What a voice may be called."""

from __future__ import annotations

import re
import unicodedata

from rhapsode.errors import InvalidRequest

MAX_NAME_CHARS = 64
VOICE_ID = re.compile(r"voice_[0-9a-f]{12}")

_RULE = (
    f"A voice's name has 1 to {MAX_NAME_CHARS} letters, digits, spaces, dots, dashes or underscores, "
    "does not start with a dot, and does not look like an id."
)


def checked_name(name: str) -> str:
    """The name in its one normal form; `InvalidRequest` where it could be a path, a trick or invisible."""
    normal = unicodedata.normalize("NFC", name).strip(" ")
    if (
        not 1 <= len(normal) <= MAX_NAME_CHARS
        or normal.startswith(".")
        or not all(_is_plain(char) for char in normal)
        or not any(char.isalnum() for char in normal)
        or VOICE_ID.fullmatch(name_key(normal))
    ):
        raise InvalidRequest(_RULE, param="name")
    return normal


def name_key(name: str) -> str:
    """Equal for names that differ in case, width or composition only."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip(" ")


def _is_plain(char: str) -> bool:
    return char in " ._-" or unicodedata.category(char)[0] in "LMN"
