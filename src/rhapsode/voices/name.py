"""Which names a voice may have, and when two names are the same."""

from __future__ import annotations

import re
import unicodedata

from rhapsode.errors import InvalidRequest

MAX_NAME_CHARS = 64
VOICE_ID = re.compile(r"voice_[0-9a-f]{12}")

_MAX_RAW_CHARS = 8 * MAX_NAME_CHARS  # a letter and its accents may be several characters before they are composed
_RULE = (
    f"A voice's name has 1 to {MAX_NAME_CHARS} letters, digits, spaces, dots, dashes or underscores, "
    "does not start with a dot, and does not look like an id."
)


def checked_name(name: str) -> str:
    """Returns the name in its one normal form; `InvalidRequest` where it could be a path, deceptive or invisible."""
    normal = unicodedata.normalize("NFC", name[:_MAX_RAW_CHARS]).strip(" ")
    if (
        len(name) > _MAX_RAW_CHARS
        or not 1 <= len(normal) <= MAX_NAME_CHARS
        or normal.startswith(".")
        or not all(_is_plain(char) for char in normal)
        or not any(char.isalnum() for char in normal)
        or VOICE_ID.fullmatch(name_key(normal))
    ):
        raise InvalidRequest(_RULE, param="name")
    return normal


def name_key(name: str) -> str:
    """Returns a key that is equal for names that differ in case, width or composition only.

    No name is longer than a few hundred characters; the rest of a longer text is not looked at."""
    short = unicodedata.normalize("NFKC", name[: _MAX_RAW_CHARS + 1])
    return unicodedata.normalize("NFKC", short.casefold()).strip(" ")


def _is_plain(char: str) -> bool:
    return char in " ._-" or unicodedata.category(char)[0] in "LMN"
