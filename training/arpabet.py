"""Entries of the CMU Pronouncing Dictionary in the phonemes of the lexicon."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_CONSONANTS = {
    "B": "b",
    "CH": "ʧ",
    "D": "d",
    "DH": "ð",
    "F": "f",
    "G": "ɡ",
    "HH": "h",
    "JH": "ʤ",
    "K": "k",
    "L": "l",
    "M": "m",
    "N": "n",
    "NG": "ŋ",
    "P": "p",
    "R": "ɹ",
    "S": "s",
    "SH": "ʃ",
    "T": "t",
    "TH": "θ",
    "V": "v",
    "W": "w",
    "Y": "j",
    "Z": "z",
    "ZH": "ʒ",
}
_VOWELS = {
    "AA": "ɑ",
    "AE": "æ",
    "AO": "ɔ",
    "AW": "W",
    "AY": "I",
    "EH": "ɛ",
    "EY": "A",
    "IH": "ɪ",
    "IY": "i",
    "OW": "O",
    "OY": "Y",
    "UH": "ʊ",
    "UW": "u",
}
_SOUNDS = _CONSONANTS | _VOWELS
_REDUCED = {"AH0": "ə", "AH1": "ʌ", "AH2": "ʌ", "ER0": "əɹ", "ER1": "ɜɹ", "ER2": "ɜɹ"}
_STRESS = {"1": "ˈ", "2": "ˌ"}
_BEFORE_NO_VOWEL = "(?![ˈˌ]?[AIOWYiuæɑɔəɛɜɪʊʌ])"
_RULES = (
    (re.compile(rf"(?<=[bdfkmnpstvzðŋɡʃʒʤʧθ])əl{_BEFORE_NO_VOWEL}"), "ᵊl"),
    (re.compile(rf"(?<=[td])ən{_BEFORE_NO_VOWEL}"), "ᵊn"),
    (re.compile(r"(?<=[AIOWYiuæɑəɛɪɹʊʌɔ])t(?=[AIOWYiəɪu]|ᵊl)"), "ɾ"),
)
"""Syllabic consonants and the flap, which ARPABET does not have."""


def phonemes_of(sounds: Sequence[str]) -> str:
    """Returns the phonemes of an entry: `["HH", "AH0", "L", "OW1"]` is `həlˈO`."""
    found = ""
    for sound in sounds:
        stress = _STRESS.get(sound[-1], "")
        found += stress + (_REDUCED.get(sound) or _SOUNDS[sound.rstrip("012")])
    for pattern, new in _RULES:
        found = pattern.sub(new, found)
    return found


def read(path: Path) -> Iterator[tuple[str, str]]:
    """Yields words of letters, and their phonemes: the first reading of each."""
    for line in path.read_text("utf-8").splitlines():
        word, *sounds = line.partition("#")[0].split() or [""]
        if word.isascii() and word.isalpha() and len(word) > 1:
            yield word, phonemes_of(sounds)
