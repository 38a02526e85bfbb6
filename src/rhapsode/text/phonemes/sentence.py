"""A sentence as it arrives: its words, their parts of speech, and the phonemes of those that are decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from rhapsode.text.normalise.window import Undecided
from rhapsode.text.phonemes import sounds
from rhapsode.text.phonemes.sounds import CONSONANTS, PRIMARY, VOWELS
from rhapsode.text.phonemes.tagger import AHEAD, Tagger
from rhapsode.text.phonemes.tokens import parts_of, tokens_of
from rhapsode.text.phonemes.words import Pronunciation

_PAUSES = frozenset(";:,.!?—…")
_SIGNS = {sign: sign for sign in ";:,.!?—…()“”"} | {"–": "—", "--": "—", "-": "—", "[": "(", "]": ")", "‘": "“"}
_SILENT = frozenset("'-._‘’")
MOST_TOGETHER = 13
"""The most parts of a word that the lexicon has as one entry: "cat-o'-nine-tails"."""
_BEGINNINGS = {"am": False, "in": True, "the": False, "to": False, "used": False, "by": False}
"""For words whose sound depends on what follows: whether they begin with a vowel. A weak vowel does not count; the
sound after it does."""


class WordPart(NamedTuple):
    """A part of a token, and the number of the token in the sentence."""

    text: str
    token: int


@dataclass
class SignedWord:
    """A word with its signs, as written between blanks. `first` is the number of tokens before it in the sentence."""

    text: str
    first: int
    tokens: list[str] = field(default_factory=list)

    def items(self) -> list[str | list[WordPart]] | None:
        """Returns the signs as the model gets them, and the parts of each word between them.

        `None` if a sign is unknown.
        """
        found: list[str | list[WordPart]] = []
        letters_at = [i for i, token in enumerate(self.tokens) if any(map(str.isalpha, token))]
        for i, token in enumerate(self.tokens):
            inside = bool(letters_at) and letters_at[0] < i < letters_at[-1]
            if i in letters_at or (inside and token == "-"):
                parts = [WordPart(part, self.first + i) for part in parts_of(token)]
                if found and isinstance(found[-1], list):
                    found[-1] += parts
                else:
                    found.append(parts)
            else:
                before = self.tokens[i - 1] if i else ""
                sign = _told(token, before, is_before=not letters_at or i < letters_at[0])
                if sign is None:
                    return None
                found.append(sign)
        return found


@dataclass
class _Spot:
    """The context of a word, which is read only if its pronunciation depends on it."""

    read_tag: Callable[[], str]
    read_vowel: Callable[[], bool | None]
    read_to: Callable[[], bool]
    is_read: bool = False

    @property
    def tag(self) -> str:
        self.is_read = True
        return self.read_tag()

    @property
    def vowel_next(self) -> bool | None:
        self.is_read = True
        return self.read_vowel()

    @property
    def to_next(self) -> bool:
        self.is_read = True
        return self.read_to()


class Sentence:
    """Words in a row that may go on. A word is decided as soon as all that its sound depends on has arrived."""

    def __init__(self, tagger: Tagger, pronunciation: Pronunciation) -> None:
        self._tagger, self._pronunciation = tagger, pronunciation
        self._words: list[SignedWord] = []
        self._tokens: list[str] = []
        self._tags: list[str] = []
        self._unknown: set[str] = set()
        """What the lexicon lacks, whatever is around it: a word that waits does not look it up again."""
        self.closed = False

    def __len__(self) -> int:
        return len(self._words)

    def append(self, written: str) -> None:
        word = SignedWord(written, len(self._tokens), tokens_of(written.replace("’", "'")))
        self._words.append(word)
        self._tokens += word.tokens

    def phonemes(self, index: int) -> str | None:
        """Returns the phonemes of a word; `None` if it stays in letters.

        Raises `Undecided` if they depend on words to come.
        """
        after = index + 1
        said = self._phonemes(index, lambda: self._vowel_begins(after), lambda: self._has(after) and self._is_to(after))
        self._unknown.clear()
        return said

    def _phonemes(self, index: int, vowel: Callable[[], bool | None], to: Callable[[], bool]) -> str | None:
        word = self._words[index]
        items = word.items() if not any(map(str.isdigit, word.text)) else None
        if items is None:
            return None
        told: list[str] = []
        for item in reversed(items):
            said = item if isinstance(item, str) else self._say(item, vowel, to)
            if said is None:
                return None
            told.insert(0, said)
            vowel, to = _after(said, vowel), lambda: False
        return "".join(told).replace("ɾ", "T").replace("ʔ", "t")

    def _say(self, parts: list[WordPart], vowel: Callable[[], bool | None], to: Callable[[], bool]) -> str | None:
        """Returns the phonemes of parts that are written as one word: from the end, the longest known stretch first."""
        said = [""] * len(parts)
        right = len(parts)
        while right:
            for left in (0, *range(max(1, right - MOST_TOGETHER), right)):
                some = parts[left:right]
                found = self._look_up(some, vowel, to)
                if found is not None:
                    said[left] = found
                    vowel, to, right = _after(found, vowel), lambda: False, left
                    break
            else:
                if not _SILENT.issuperset(parts[right - 1].text):
                    return None
                right -= 1
        return "".join(_as_one(said, parts))

    def _look_up(self, some: list[WordPart], vowel: Callable[[], bool | None], to: Callable[[], bool]) -> str | None:
        word = "".join([part.text for part in some])
        if word in self._unknown:
            return None
        spot = _Spot(lambda: self._tag_of(some), vowel, to)
        found = self._pronunciation.of(word, spot)
        if found is None and not spot.is_read:
            self._unknown.add(word)
        return found

    # --- what a word depends on ---

    def _has(self, index: int) -> bool:
        if index < len(self._words):
            return True
        if not self.closed:
            raise Undecided
        return False

    def _is_to(self, index: int) -> bool:
        return self._words[index].tokens[0] in ("to", "To")

    def _vowel_begins(self, index: int) -> bool | None:
        """Whether a vowel begins this word or, if it is signs only, the next."""
        if not self._has(index):
            return None
        word = self._words[index]
        for i, token in enumerate(word.tokens):
            if any(map(str.isalpha, token)):
                known = _BEGINNINGS.get(token.lower())
                said = None if known is not None else self._phonemes(index, lambda: False, lambda: False)
                if said is None:
                    return token[0].lower() in "aeiou" if known is None else known
                return _after(said, lambda: self._vowel_begins(index + 1))()
            if (_told(token, "", is_before=not i) or " ")[0] in _PAUSES:
                return None
        return self._vowel_begins(index + 1)

    def _tag_of(self, parts: list[WordPart]) -> str:
        """Returns the part of speech of the longest part; capitals count twice."""
        longest = max(parts, key=lambda part: sum(1 if char == char.lower() else 2 for char in part.text))
        return self._tag(longest.token)

    def _tag(self, at: int) -> str:
        while len(self._tags) <= at:
            here = len(self._tags)
            tag = self._tagger.usual(self._tokens[here])
            if tag is None:
                if here + AHEAD >= len(self._tokens) and not self.closed:
                    raise Undecided
                tag = self._tagger.tag(self._tokens, here, self._tags)
            self._tags.append(tag)
        return self._tags[at]


def _told(sign: str, before: str, is_before: bool) -> str | None:
    """Returns a sign as the model gets it, after the token `before`; `None` if the sign is unknown."""
    if sign in ('"', "''", "``"):
        return "“" if is_before else "”"
    if sign == "'":
        return "“" if is_before else "”" if before[-1:] in _PAUSES else ""
    if sign.startswith(".."):
        return sign
    return _SIGNS.get(sign)


def _after(said: str, before: Callable[[], bool | None]) -> Callable[[], bool | None]:
    """Returns a function for the word before these phonemes: it tells whether they begin with a vowel."""
    for sound in said:
        if sound in _PAUSES:
            return lambda: None
        if sound in VOWELS or sound in CONSONANTS:
            is_vowel = sound in VOWELS
            return lambda: is_vowel
    return before


def _as_one(said: list[str], parts: list[WordPart]) -> list[str]:
    """Keeps primary stress on about half of the words in a compound, the longer ones."""
    spoken = [i for i, one in enumerate(said) if one]
    if len(spoken) == 2 and len(parts[spoken[0]].text) == 1:
        weak = spoken[1:]
    else:
        ranked = sorted((PRIMARY in said[i], sounds.weight(said[i]), i) for i in spoken)
        too_many = len(spoken) > 1 and sum(has for has, _, _ in ranked) > (len(spoken) + 1) // 2
        weak = [i for _, _, i in ranked[: len(spoken) // 2]] if too_many else []
    return [sounds.weakened(one) if i in weak else one for i, one in enumerate(said)]
