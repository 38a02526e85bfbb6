"""Addresses of the web and of mail, said in English."""

from __future__ import annotations

import re

from rhapsode.text.normalise.digits import is_digits
from rhapsode.text.normalise.english.numbers import digits, number
from rhapsode.text.normalise.window import Spoken, WordWindow

_DOMAINS = frozenset(
    "com org net edu gov mil int io ai dev app co uk de fr es it pt ru cn jp kr us ca au nz ch at nl be se no dk fi pl"
    " br in mx info biz me tv gg fm to xyz online site tech eu ie local".split()
)
_HOST = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::[0-9]{1,5})?")
_USER = re.compile(r"[A-Za-z0-9._%+-]+")
_PIECE = re.compile(r"[A-Za-z]+|[0-9]+|.")
_SIGNS = {
    ".": "dot",
    "/": "slash",
    "-": "dash",
    "_": "underscore",
    "@": "at",
    ":": "colon",
    "?": "question mark",
    "=": "equals",
    "&": "and",
    "#": "hash",
    "%": "percent",
    "+": "plus",
    "~": "tilde",
    ",": "comma",
    ";": "semicolon",
    "!": "exclamation mark",
    "*": "star",
    "'": "apostrophe",
    "(": "open parenthesis",
    ")": "close parenthesis",
}
_LETTERS = frozenset(("www", "ftp", "html", "php", "uk", "io", "ai", "tv", "eu", "de", "fr", "us", "jp", "cn", "kr"))


def address(window: WordWindow) -> Spoken | None:
    """Reads `https://example.com/a-b`, `www.example.org`, `jane.doe@example.com`."""
    core = window.word.core
    if "@" in core:
        user, _, host = core.removeprefix("mailto:").rpartition("@")
        return Spoken(spell(f"{user}@{host}")) if _USER.fullmatch(user) and _is_host(host) else None
    scheme, mark, rest = core.partition("://")
    if mark and scheme.lower() in ("http", "https", "ftp"):
        return Spoken(spell(rest.rstrip("/"))) if rest else None
    if "." not in core:
        return None
    host = core.partition("/")[0]
    return Spoken(spell(core.rstrip("/"))) if core.lower().startswith("www.") or _is_host(host) else None


def handle(window: WordWindow) -> Spoken | None:
    """Reads `@name` and `#tag`."""
    core = window.word.core
    if len(core) < 2 or not core[1].isalpha() or not core[1:].replace("_", "").isalnum():
        return None
    if core[0] == "@":
        return Spoken(f"at {spell(core[1:])}")
    return Spoken(f"hashtag {spell(core[1:])}") if core[0] == "#" else None


def spell(text: str) -> str:
    """Returns an address as words: names of signs, numbers, letters of short names."""
    return " ".join(_said(piece) for piece in _PIECE.findall(text))


def _said(piece: str) -> str:
    if is_digits(piece):
        return number(piece) if len(piece) <= 2 else digits(piece)
    if piece.lower() in _LETTERS:
        return " ".join(piece)
    return _SIGNS.get(piece, piece)


def _is_host(text: str) -> bool:
    if not _HOST.fullmatch(text):
        return False
    labels = text.partition(":")[0].split(".")
    return labels[-1].lower() in _DOMAINS and any(char.isalpha() for char in labels[-2])
