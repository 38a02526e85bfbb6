"""Guesses the phonemes of an English word that no lexicon has, by the usual sounds of its letters."""

from __future__ import annotations

import re
import unicodedata

from rhapsode.text.phonemes.sounds import PRIMARY, VOWELS

_SPELLINGS = {
    "tch": "ʧ", "sch": "ʃ", "eigh": "A", "igh": "I", "ough": "O", "augh": "ɔ", "tion": "ʃən", "sion": "ʒən",
    "ph": "f", "sh": "ʃ", "ch": "ʧ", "th": "θ", "wh": "w", "ck": "k", "ng": "ŋ", "qu": "kw", "gh": "ɡ", "dge": "ʤ",
    "ee": "i", "ea": "i", "oo": "u", "ou": "W", "ow": "O", "oi": "Y", "oy": "Y", "ai": "A", "ay": "A", "ey": "A",
    "au": "ɔ", "aw": "ɔ", "ie": "i", "ei": "A", "oa": "O", "ue": "u", "ew": "u",
    "ar": "ɑɹ", "er": "əɹ", "ir": "ɜɹ", "or": "ɔɹ", "ur": "ɜɹ",
    "ce": "sɛ", "ci": "sɪ", "cy": "si", "ge": "ʤɛ", "gi": "ʤɪ",
    "a": "æ", "b": "b", "c": "k", "d": "d", "e": "ɛ", "f": "f", "g": "ɡ", "h": "h", "i": "ɪ", "j": "ʤ", "k": "k",
    "l": "l", "m": "m", "n": "n", "o": "ɑ", "p": "p", "q": "k", "r": "ɹ", "s": "s", "t": "t", "u": "ʌ", "v": "v",
    "w": "w", "x": "ks", "y": "i", "z": "z",
}  # fmt: skip
_FIRST = {"kn": "n", "wr": "ɹ", "ps": "s", "y": "j", "x": "z"}
_LAST = {"a": "ə", "o": "O", "e": "i", "i": "i", "u": "u", "le": "ᵊl", "ce": "s", "ge": "ʤ", "es": "iz"}
_LONG = {"a": "A", "e": "i", "i": "I", "o": "O", "u": "u", "y": "I"}
_SILENT_E = re.compile(r"(?<=[a-z])([aeiouy])([bcdfgklmnprstvz])e$")
_LONGEST = max(map(len, _SPELLINGS))


def guessed(word: str) -> str:
    """Returns phonemes for the letters of a word, the first vowel stressed; empty if it has no Latin letter."""
    plain = unicodedata.normalize("NFKD", word.lower())
    letters = re.sub(r"([bcdfgklmnprstvz])\1", r"\1", re.sub(r"[^a-z]", "", plain))
    said = "".join(_sounds(letters))
    first = next((at for at, sound in enumerate(said) if sound in VOWELS), None)
    return said if first is None else said[:first] + PRIMARY + said[first:]


def _sounds(letters: str) -> list[str]:
    ending: list[str] = []
    if found := _SILENT_E.search(letters):
        consonant = {"c": "s", "g": "ʤ"}.get(found[2], _SPELLINGS[found[2]])
        letters, ending = letters[: found.start()], [_LONG[found[1]], consonant]
    said, at = list[str](), 0
    while at < len(letters):
        size, sound = _next(letters, at, is_last=not ending)
        said.append(sound)
        at += size
    return [*said, *ending]


def _next(letters: str, at: int, is_last: bool) -> tuple[int, str]:
    """Returns the length and the sound of the spelling that begins at a letter."""
    for size in range(min(_LONGEST, len(letters) - at), 0, -1):
        part = letters[at : at + size]
        if not at and size < len(letters) and part in _FIRST:
            return size, _FIRST[part]
        if at and is_last and at + size == len(letters) and part in _LAST:
            return size, _LAST[part]
        if part in _SPELLINGS:
            return size, _SPELLINGS[part]
    return 1, ""
