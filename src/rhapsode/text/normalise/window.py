"""The words that a rule can read: a word and those around it, as far as they have arrived."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

OPENING = "\"'“‘„‚([{<*_«¿¡「『（《。，、；：！？"
CLOSING = ".,;:!?)]}\"'”’»…*_>」』）》。，、；：！？"
LONGEST_WORD = 256
"""A longer word is passed on as it is written."""
MOST_BEFORE = 6
"""How many words before the current one a rule may read."""


class Undecided(Exception):
    """How the text is said here depends on text that has not arrived yet."""


class Word(NamedTuple):
    """A word between spaces, without the punctuation around it."""

    lead: str
    core: str
    tail: str
    first: int = 0
    """The index in the buffer where the word begins."""
    spaced: bool = True
    """Whether white space, or the start of the text, comes before the word."""
    new_line: bool = False
    """Whether a line break comes before the word."""

    @property
    def core_first(self) -> int:
        return self.first + len(self.lead)

    @property
    def core_last(self) -> int:
        return self.core_first + len(self.core)

    @property
    def last(self) -> int:
        return self.core_last + len(self.tail)

    @property
    def ends(self) -> bool:
        """Whether punctuation follows the word: no phrase goes on after it."""
        return bool(self.tail)


class Spoken(NamedTuple):
    """The result of a rule: `text` replaces the first `words` words, except for the punctuation around them."""

    text: str
    words: int = 1
    tail: int = 0
    """Characters of the last word's closing punctuation that belong to it: the dot of an abbreviation."""
    lead: int = 0
    """Characters of the first word's opening punctuation that belong to it."""


class WordWindow:
    """The current word and those around it. Reading past the text so far raises `Undecided`."""

    def __init__(self, words: Iterator[Word], before: Sequence[Word], closed: bool) -> None:
        self._coming = words
        self._before = before
        self._closed = closed
        self.words = [next(words)]
        """The words read so far, the current one first."""

    @property
    def word(self) -> Word:
        return self.words[0]

    def after(self, count: int = 1, unspaced: bool = False) -> Word | None:
        """Returns the word `count` places ahead; `None` if the text or the line ends before it.

        `unspaced`: also one without a space before it, as in Chinese.
        """
        for index in range(1, count + 1):
            if index >= len(self.words):
                self.words += itertools.islice(self._coming, 1)
            if index >= len(self.words):
                if self._closed:
                    return None
                raise Undecided
            if self.words[index].new_line or not (self.words[index].spaced or unspaced):
                return None
        return self.words[count]

    def next_in_phrase(self, count: int = 1) -> Word | None:
        """Returns the word `count` places ahead; `None` if punctuation separates it from this one."""
        for index in range(count):
            word = self.word if not index else self.after(index)
            if word is None or word.ends:
                return None
        found = self.after(count)
        return None if found is None or found.lead else found

    def before(self, count: int = 1) -> Word | None:
        """Returns the word `count` places back; `None` if there is none, or it is no longer kept."""
        return self._before[-count] if count <= len(self._before) else None


Rule = Callable[[WordWindow], Spoken | None]


def bare(text: str, first: int = 0, spaced: bool = True, new_line: bool = False) -> Word:
    """Returns a word without the punctuation around it."""
    core = text.lstrip(OPENING)
    lead = text[: len(text) - len(core)]
    stripped = core.rstrip(CLOSING)
    return Word(lead, stripped, core[len(stripped) :], first, spaced, new_line)
