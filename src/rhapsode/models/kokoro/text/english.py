"""English as the model's phonemes: the package's lexicon, in the accent of a voice."""

from __future__ import annotations

import re

from rhapsode.text.numbers.english import cardinal
from rhapsode.text.phonemes.guess import guessed
from rhapsode.text.phonemes.sounds import as_phonemes
from rhapsode.text.phonemes.stream import PhonemeStream
from rhapsode.text.spoken import SpokenRun

_MOST_DIGITS = 15
_QUOTED = re.compile(r'(^|[\s(—])"(?=\S)')
_SIGNS = {'"': "”", "–": "—", "-": " ", "‘": "“", "[": "(", "]": ")", "&": " ænd "}
_KEPT = frozenset(";:,.!?—…()“” \n\t")
_PIECE = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|\d+|.", re.DOTALL)
_VOWEL = "[ˈˌ]?[aæɐɑɒɔəɛɜɪʊʌiuAIQWY]"
_BRITISH = tuple(
    (re.compile(pattern), sound)
    for pattern, sound in (
        ("T", "t"),
        ("O", "Q"),
        ("ᵻ", "ɪ"),
        (f"ɜɹ(?={_VOWEL})", "ɜːɹ"),
        ("ɜɹ", "ɜː"),
        (f"əɹ(?!{_VOWEL})", "ə"),
        (f"([ɑɔɛ])ɹ(?!{_VOWEL})", r"\1ː"),
        (f"([ɪʊ])ɹ(?!{_VOWEL})", r"\1ə"),
        ("æ", "a"),
        ("ɑ(?!ː)", "ɒ"),
        ("ɔ(?!ː)", "ɔː"),
        (f"(?<=[ˈˌ])([^\\s{_VOWEL[5:-1]}ˈˌ]*[iu])(?!ː)", r"\1ː"),
        (r"\b([ʃbhwm]i|ju)\b", r"\1ː"),
    )
)
"""American sounds and what British voices know in their place. The words stay those of the American lexicon."""


def american(text: str) -> str:
    """Returns the phonemes of a normalised text. Words that the lexicon lacks are guessed by their letters."""
    opened = _QUOTED.sub(r"\1“", text)
    stream = PhonemeStream()
    runs = [*stream.push(SpokenRun(opened, 0, len(opened), copied=True)), *stream.close()]
    said = "".join(as_phonemes(run.text) if run.fixed else _guessed(run.text) for run in runs)
    return " ".join(said.split())


def british(text: str) -> str:
    """Returns the same words with British sounds."""
    said = american(text)
    for pattern, sound in _BRITISH:
        said = pattern.sub(sound, said)
    return said


def _guessed(text: str) -> str:
    return "".join(_said(piece) for piece in _PIECE.findall(text))


def _said(piece: str) -> str:
    if piece in _KEPT:
        return piece
    if piece[0].isalpha():
        return guessed(piece)
    if piece.isdecimal() and len(piece) <= _MOST_DIGITS:
        return american(cardinal(int(piece)))
    return _SIGNS.get(piece, "")
