"""English telephone numbers, and other numbers that are said digit by digit."""

from __future__ import annotations

import re

from rhapsode.text.normalise.digits import is_digits
from rhapsode.text.normalise.english.numbers import digits, number
from rhapsode.text.normalise.window import Spoken, WordWindow

_PHONE = re.compile(r"(\+)?(?:([0-9]{1,3})[-. ])?\(?([0-9]{3})\)?[-. ]([0-9]{3})[-. ]([0-9]{4})")
_LOCAL = re.compile(r"([0-9]{3})-([0-9]{4})")
_TAIL = re.compile(r"([0-9]{3})[-. ]([0-9]{4})")
_INTERNATIONAL = re.compile(r"\+(?:[0-9]{1,3}(?:[-. ][0-9]{2,}){1,5}|[0-9]{3,}(?:[-. ][0-9]{2,}){0,4})")
_ADDRESS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
_CODE_WORDS = frozenset(
    "code codes pin password passcode zip postcode extension ext id serial account tracking confirmation dial".split()
)
MOST_GROUPS = 5


def phone(window: WordWindow) -> Spoken | None:
    """Reads `555-2648`, `(415) 555-2671`, `+1 415-555-2671`, `+44 20 7946 0958`, `192.168.0.1`."""
    word = window.word
    if found := _PHONE.fullmatch(word.core):
        return _said(found[1], found.groups()[1:])
    if found := _LOCAL.fullmatch(word.core):
        return _said(None, found.groups())
    if _ADDRESS.fullmatch(word.core):
        return Spoken(" dot ".join(number(part) if len(part) < 3 else digits(part) for part in word.core.split(".")))
    if word.lead.endswith("(") and word.tail.startswith(")") and is_digits(word.core) and len(word.core) == 3:
        return _area_code(window)
    return _international(window) if word.core.startswith("+") else None


def code(window: WordWindow) -> Spoken | None:
    """Reads the digits of a number after words such as `code` or `PIN`."""
    core = window.word.core
    if not is_digits(core) or not 3 <= len(core) <= 12:
        return None
    for count in range(1, 6):
        before = window.before(count)
        if before is None or "." in before.tail:
            return None
        if before.core.lower() in _CODE_WORDS:
            return Spoken(digits(core))
    return None


def _said(plus: str | None, groups: tuple[str | None, ...]) -> Spoken:
    return Spoken(("plus " if plus else "") + ", ".join(digits(group) for group in groups if group))


def _area_code(window: WordWindow) -> Spoken | None:
    following = window.after()
    if following is None or window.word.tail != ")" or following.lead:
        return None
    found = _TAIL.fullmatch(following.core)
    if found is None:
        return None
    said = ", ".join(digits(group) for group in (window.word.core, *found.groups()))
    return Spoken(said, 2, lead=1)


def _international(window: WordWindow) -> Spoken | None:
    core = window.word.core
    groups = [core]
    if not is_digits(core[1:].replace("-", "").replace(".", "")):
        return None
    while len(groups) < MOST_GROUPS:
        following = window.next_in_phrase(len(groups))
        if following is None or not is_digits(following.core.replace("-", "")) or len(following.core) < 2:
            break
        groups.append(following.core)
    if not _INTERNATIONAL.fullmatch(" ".join(groups)) or sum(map(len, groups)) < 8:
        return None
    parts = [part for group in groups for part in re.split(r"[-.]", group.removeprefix("+")) if part]
    return Spoken(f"plus {', '.join(digits(part) for part in parts)}", len(groups))
