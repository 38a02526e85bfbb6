"""Finds the longest of many words and phrases at a place of a text, in one walk that compares no phrase by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from rhapsode.text.normalise.window import Undecided

_ATOM = re.compile(r"\s+|[\u3005-\u30ff\u3400-\u9fff]|[^\W_\u3005-\u30ff\u3400-\u9fff]+|.")
"""White space, one Chinese or Japanese character, a word, or a sign."""
_PARAGRAPH = "\n\n"


class FoundPhrase(NamedTuple):
    """A phrase that was found at a place of a text."""

    atoms: int
    """Its length."""
    has_capital: bool
    """Whether it matches one spelling only."""
    spoken: str


class Atoms:
    """The words, signs and blanks of a text."""

    def __init__(self, text: str, closed: bool = True) -> None:
        """`closed`: no later text continues the last word."""
        found = list(_ATOM.finditer(text))
        self.texts = [atom[0] for atom in found]
        self.ends = [atom.end() for atom in found]
        self.folded = [_folded(atom) for atom in self.texts]
        self.closed = closed

    def __len__(self) -> int:
        return len(self.texts)

    def goes_on(self, index: int) -> bool:
        """Whether later text may continue this word."""
        return index == len(self.texts) - 1 and not self.closed and is_word(self.texts[index])


class WordTree:
    """Phrases by their words. A word in lower case matches any case; a word with a capital matches only this spelling.

    Each step of a walk goes to one node, whatever the case of the words is. The phrases that their spelling still
    allows are bits of a number, so that a thousand spellings of one phrase cost little more than one.
    """

    def __init__(self, entries: Iterable[tuple[list[str], str]]) -> None:
        """`entries`: the words, signs and blanks of each phrase, as `phrase_atoms` returns them, and what it means."""
        groups: dict[str, list[tuple[list[str], str]]] = {}
        for atoms, spoken in entries:
            groups.setdefault(_key(atoms[0]), []).append((atoms, spoken))
        self._groups = {first: _Group(same_first) for first, same_first in groups.items()}

    def longest(self, atoms: Atoms, at: int) -> FoundPhrase | None:
        """Returns the longest phrase that begins with this atom; raises `Undecided` if later text decides it."""
        group = self._groups.get(atoms.folded[at])
        return group.longest(atoms, at) if group is not None else None


class _Node:
    __slots__ = ("any_case", "ends", "following", "spelled")

    def __init__(self) -> None:
        self.following: dict[str, _Node] = {}
        self.any_case = 0
        """The phrases whose word here is in lower case."""
        self.spelled: dict[str, int] = {}
        """The phrases whose word here has a capital, by that word."""
        self.ends = 0
        """The phrases whose last word this is."""

    def allowed(self, atom: str) -> int:
        return self.any_case | self.spelled.get(atom, 0)


class _Group:
    """Phrases that begin with the same word. Of two that match the same text, that with a capital has the lower bit."""

    def __init__(self, entries: list[tuple[list[str], str]]) -> None:
        entries = sorted(entries, key=lambda entry: "".join(entry[0]).islower())
        self._found = [FoundPhrase(len(atoms), not "".join(atoms).islower(), spoken) for atoms, spoken in entries]
        self._root = _Node()
        for number, (atoms, _) in enumerate(entries):
            node = self._root
            for atom in atoms:
                node = node.following.setdefault(_key(atom), _Node())
                if atom == " " or atom.islower():
                    node.any_case |= 1 << number
                else:
                    node.spelled[atom] = node.spelled.get(atom, 0) | 1 << number
            node.ends |= 1 << number

    def longest(self, atoms: Atoms, at: int) -> FoundPhrase | None:
        node, alive, best = self._root, -1, 0
        for index in range(at, len(atoms)):
            if atoms.goes_on(index) and _may_become(node, alive, atoms.folded[index]):
                raise Undecided
            following = node.following.get(atoms.folded[index])
            if following is None:
                break
            node = following
            alive &= node.allowed(atoms.texts[index])
            best = alive & node.ends or best
            alive &= ~node.ends
            if not alive:
                break
        else:
            if not atoms.closed:
                raise Undecided
        return self._found[(best & -best).bit_length() - 1] if best else None


def _may_become(node: _Node, alive: int, begun: str) -> bool:
    """Whether a word that begins so can become one of the next words of a phrase that is still possible."""
    return any(
        word.startswith(begun) and alive & (following.any_case | sum(following.spelled.values()))
        for word, following in node.following.items()
    )


def phrase_atoms(phrase: str) -> list[str]:
    """Returns the words, signs and blanks of a phrase."""
    return [" " if atom.isspace() else atom for atom in _ATOM.findall(phrase)]


def is_word(atom: str) -> bool:
    """Whether later text may continue an atom: letters and digits, not a Chinese or Japanese character."""
    return atom.isalnum() and not "\u3005" <= atom[0] <= "\u30ff" and not "\u3400" <= atom[0] <= "\u9fff"


def _key(atom: str) -> str:
    return atom if atom.islower() else atom.lower()


def _folded(atom: str) -> str:
    """Returns an atom without its case; all white space within a paragraph is alike."""
    if atom.isspace():
        return " " if atom.count("\n") < 2 else _PARAGRAPH
    return atom.lower()
