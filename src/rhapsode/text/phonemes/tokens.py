"""Cuts a written word, with the signs around it, into the tokens that have a part of speech."""

from __future__ import annotations

import re

_SIGN = "…,:;!?¿¡()[\\]{}<>_#*&'\"”“`‘´’‚„»«—–"
_BEFORE = re.compile(rf"\.\.+|[{_SIGN}%=§]")
_AFTER = re.compile(rf"(?:\.\.+|[{_SIGN}]|(?<=[a-z\d%{_SIGN}-])\.|(?<=[A-Z][A-Z])\.)$")
_INSIDE = re.compile(r"\.\.+|…|(?<=[^\W\d_]),(?=[^\W\d_])|(?<=[^\W_])(?:--+|[-–—~]|[:<>=/])(?=[^\W\d_])")
_PART = re.compile(r"^'+|[-_]+|[^\W\d_]+(?:'[^\W\d_])*|[^\w\s]|'+$")

_NOT = frozenset(
    "ai are ca could did do does had has have is might must need ought sha should was were wo would dare may".split()
)
_SUBJECTS = frozenset("i you he she it we they who what where when why how there that this these those".split())
_ENDINGS = {
    "n't": _NOT,
    "'ll": _SUBJECTS,
    "'d": _SUBJECTS,
    "'re": _SUBJECTS,
    "'m": frozenset(["i"]),
    "'ve": _SUBJECTS | frozenset(["could", "might", "must", "should", "would"]),
}
_TWO_WORDS = {"cannot": 3, "gonna": 3, "gotta": 3}
"""Where words are cut that are two."""


def tokens_of(written: str) -> list[str]:
    """Returns the tokens of a word between blanks, in order: joined, they are the word."""
    first, last, after = 0, len(written), list[str]()
    before: list[str] = []
    while first < last and (sign := _BEFORE.match(written, first, last)):
        before.append(sign[0])
        first = sign.end()
    while first < last and (sign := _AFTER.search(written[first:last])):
        after.insert(0, sign[0])
        last -= len(sign[0])
    core = written[first:last]
    return [*before, *_split(core), *after]


def parts_of(token: str) -> list[str]:
    """Returns the parts of a token that are looked up by themselves if it is not known."""
    return _PART.findall(token)


def _split(core: str) -> list[str]:
    found, at = list[str](), 0
    for cut in _INSIDE.finditer(core):
        if cut.start() > 0:
            found += [*_contracted(core[at : cut.start()]), cut[0]]
            at = cut.end()
    return [token for token in [*found, *_contracted(core[at:])] if token]


def _contracted(word: str) -> list[str]:
    """Cuts `don't` into `do` and `n't`."""
    lower = word.lower()
    if lower in _TWO_WORDS:
        return [word[: _TWO_WORDS[lower]], word[_TWO_WORDS[lower] :]]
    if lower.endswith("'s") and len(word) > 2:
        return [word[:-2], word[-2:]]
    for ending, stems in () if word == word.upper() else _ENDINGS.items():
        if lower.endswith(ending) and lower[: -len(ending)].replace("'d", "").replace("n't", "") in stems:
            return [*_contracted(word[: -len(ending)]), word[-len(ending) :]]
    return [word]
