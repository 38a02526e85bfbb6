"""Phonemes as text: their classes, their stress, the sound of endings, and the alphabet that a model reads them in."""

from __future__ import annotations

PRIMARY, SECONDARY = "ˈ", "ˌ"
VOWELS = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻ")
CONSONANTS = frozenset("bdfhjklmnpstvwzðŋɡɹɾʃʒʤʧθ")
_LONG = frozenset("AIOQWYʤʧ")
_FLAPPED_AFTER = frozenset("AIOWYiuæɑəɛɪɹʊʌ")
"""Between one of these and an ending, American English has a flap in place of t."""
_SHIFT = 0x0400


def respelled(phonemes: str) -> str:
    """Returns phonemes as characters that no English word has: ASCII letters are replaced by Cyrillic code points."""
    return "".join(chr(_SHIFT + ord(sound)) if sound.isascii() and sound.isalpha() else sound for sound in phonemes)


def as_phonemes(spelling: str) -> str:
    """Undoes `respelled`."""
    return "".join(chr(ord(char) - _SHIFT) if _SHIFT < ord(char) < _SHIFT + 128 else char for char in spelling)


def weight(sounds: str) -> int:
    """Returns how long a word is, in sounds: diphthongs and affricates count twice."""
    return sum(2 if sound in _LONG else 1 for sound in sounds)


def weakened(sounds: str) -> str:
    """Returns a word with its primary stress made secondary; a word without primary stress stays the same."""
    if PRIMARY not in sounds:
        return sounds
    return sounds.replace(SECONDARY, "").replace(PRIMARY, SECONDARY)


def stressed(sounds: str, capitals: int) -> str:
    """Adds stress to a word by its `capitals`: 0 if it has none, 1 if it has some, 2 if it has capitals only."""
    if not capitals or PRIMARY in sounds:
        return sounds
    if SECONDARY in sounds:
        return sounds.replace(SECONDARY, PRIMARY) if capitals > 1 else sounds
    mark = PRIMARY if capitals > 1 else SECONDARY
    first = next((at for at, sound in enumerate(sounds) if sound in VOWELS), None)
    return sounds if first is None else sounds[:first] + mark + sounds[first:]


def with_s(stem: str) -> str:
    if stem[-1] in "ptkfθ":
        return stem + "s"
    return stem + ("ᵻz" if stem[-1] in "szʃʒʧʤ" else "z")


def with_ed(stem: str) -> str:
    if stem[-1] in "pkfθʃsʧ":
        return stem + "t"
    if stem[-1] == "t" and len(stem) > 1:
        return stem[:-1] + "ɾᵻd" if stem[-2] in _FLAPPED_AFTER else stem + "ᵻd"
    return stem + {"d": "ᵻd", "t": "ɪd"}.get(stem[-1], "d")


def with_ing(stem: str) -> str:
    if len(stem) > 1 and stem[-1] == "t" and stem[-2] in _FLAPPED_AFTER:
        return stem[:-1] + "ɾɪŋ"
    return stem + "ɪŋ"
