"""Cuts a written word, with the signs around it, into the tokens that have a part of speech."""

from __future__ import annotations

import re

_SIGNS = frozenset("…,:;!?¿¡()[]{}<>_#*&'\"”“`‘´’‚„»«—–")
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
"""Words that are two tokens, and where they are cut."""
_LONGEST_CONTRACTION = 16


def tokens_of(written: str) -> list[str]:
    """Returns the tokens of a word between blanks, in order: joined, they are the word."""
    first, last, before, after = 0, len(written), list[str](), list[str]()
    while size := _sign_before(written, first):
        before.append(written[first : first + size])
        first += size
    while size := _sign_after(written, first, last):
        after.append(written[last - size : last])
        last -= size
    return [*before, *_split(written[first:last]), *reversed(after)]


def _sign_before(written: str, first: int) -> int:
    """Returns the length of the sign that begins here: 0 if there is none."""
    dots = first
    while dots < len(written) and written[dots] == ".":
        dots += 1
    if dots - first > 1:
        return dots - first
    return int(first < len(written) and (written[first] in _SIGNS or written[first] in "%=§"))


def _sign_after(written: str, first: int, last: int) -> int:
    """Returns the length of the sign that ends here: 0 if there is none. A full stop may belong to the word."""
    dots = last
    while dots > first and written[dots - 1] == ".":
        dots -= 1
    if last - dots != 1:
        return last - dots or int(last > first and written[last - 1] in _SIGNS)
    past = written[max(first, dots - 2) : dots]
    ends_word = past[-1:].isdecimal() or past[-1:] in _SIGNS or bool(re.fullmatch(r".?[a-z%-]|[A-Z][A-Z]", past))
    return int(ends_word)


def parts_of(token: str) -> list[str]:
    """Returns the parts of a token, which are looked up one by one if the token is not known."""
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
    if word == word.upper() or len(word) > _LONGEST_CONTRACTION:
        return [word]
    for ending, stems in _ENDINGS.items():
        if lower.endswith(ending) and lower[: -len(ending)].replace("'d", "").replace("n't", "") in stems:
            return [*_contracted(word[: -len(ending)]), word[-len(ending) :]]
    return [word]
