"""A lexicon: words with respellings that make a model pronounce them correctly."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from pathlib import Path

from rhapsode.config import parse_yaml
from rhapsode.errors import ConfigError, InvalidRequest
from rhapsode.text.normalise.window import Undecided
from rhapsode.text.spoken import RunBuffer, SpokenRun, joined
from rhapsode.text.word_tree import Atoms, FoundPhrase, WordTree, is_word, phrase_atoms

MOST_WORD_CHARS, MOST_SPOKEN_CHARS = 100, 300
REMEMBERED = 4
"""How many lexicons of requests are kept: the requests of a conversation bring the same one again and again."""
MOST_ATOMS = 24
"""The most atoms of one entry: words, signs and the spaces between them."""


class Lexicon:
    """Respellings by word. A word in lower case matches any case; a word with a capital matches only this spelling."""

    def __init__(self, entries: Mapping[str, str] | None = None, base: Lexicon | None = None) -> None:
        """`base`: a lexicon whose entries count, too, as far as these do not override them."""
        own = dict(entries or {})
        tree = WordTree((_atoms(word, spoken), spoken) for word, spoken in own.items())
        self.entries: MutableMapping[str, str] = ChainMap(own, base.entries) if base else own
        self._trees: tuple[WordTree, ...] = (tree, *(base._trees if base else ()))

    @classmethod
    def read(cls, file: Path | None) -> Lexicon:
        """Reads a YAML file with one respelling per word."""
        if file is None:
            return cls()
        try:
            content = parse_yaml(file.expanduser().read_text("utf-8"), str(file))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ConfigError(f"cannot read the lexicon {file}: {reason}.") from None
        if not isinstance(content, dict | None):
            raise ConfigError(f"the lexicon {file} must hold one 'word: respelling' per line.")
        try:
            return cls({_text(word): _text(spoken) for word, spoken in (content or {}).items()})
        except InvalidRequest as error:
            raise ConfigError(f"the lexicon {file}: {error.message}") from None

    def with_more(self, entries: Mapping[str, str]) -> Lexicon:
        """Returns a lexicon with these entries, which override its own. Its own are not read again."""
        return _extended(self, tuple(entries.items())) if entries else self

    def longest(self, atoms: Atoms, at: int) -> FoundPhrase | None:
        """Returns the longest entry that begins here; of equally long ones, that with a capital, which matches fewer
        texts. Raises `Undecided` if later text decides it."""
        found = [phrase for tree in self._trees if (phrase := tree.longest(atoms, at)) is not None]
        return max(found, key=lambda phrase: (phrase.atoms, phrase.has_capital), default=None)


class LexiconStream:
    """Replaces words of a text that arrives in pieces by their respellings, which no later step changes."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._buffer = RunBuffer()
        self._in_word = False
        """Whether the text passed on so far ends inside a word that is longer than any entry."""

    def push(self, run: SpokenRun) -> list[SpokenRun]:
        """Takes a run; returns what is certain now."""
        if run.fixed:
            return [*self.close(), run]
        self._buffer.append(run)
        return self._advance(closed=False)

    def close(self) -> list[SpokenRun]:
        """Returns the rest. No later text continues the last word."""
        rest = self._advance(closed=True)
        self._in_word = False
        return rest

    def _advance(self, closed: bool) -> list[SpokenRun]:
        buffer, atoms, found = self._buffer, Atoms(self._buffer.text, closed), list[SpokenRun]()
        index = kept = at = 0  # what is between `kept` and `at` stays as it is written
        while index < len(atoms):
            goes_on, is_rest = atoms.goes_on(index), self._in_word and is_word(atoms.texts[index])
            if goes_on and not is_rest and len(atoms.texts[index]) <= MOST_WORD_CHARS:
                break
            self._in_word = goes_on
            try:
                phrase = None if is_rest or goes_on else self._lexicon.longest(atoms, index)
            except Undecided:
                break
            index += phrase.atoms if phrase else 1
            stop = atoms.ends[index - 1]
            if phrase:
                found += [*buffer.runs(kept, at), SpokenRun(phrase.spoken, *buffer.span(at, stop), fixed=True)]
                kept = stop
            at = stop
        found += buffer.runs(kept, at)
        buffer.drop(at)
        return joined(found)


@lru_cache(maxsize=REMEMBERED)
def _extended(base: Lexicon, entries: tuple[tuple[str, str], ...]) -> Lexicon:
    return Lexicon(dict(entries), base)


def _atoms(word: str, spoken: str) -> list[str]:
    """Returns the words and signs of an entry; raises `InvalidRequest` if it is empty or too long."""
    if not word.strip() or not spoken.strip():
        raise InvalidRequest(f"the lexicon has an empty word or respelling: '{word}'.", param="lexicon")
    atoms = phrase_atoms(word.strip()) if len(word) <= MOST_WORD_CHARS else []
    if not 0 < len(atoms) <= MOST_ATOMS or len(spoken) > MOST_SPOKEN_CHARS:
        raise InvalidRequest(
            f"a word of the lexicon has at most {MOST_WORD_CHARS} characters and {MOST_ATOMS} words and signs, "
            f"a respelling {MOST_SPOKEN_CHARS} characters: '{word[:40]}'.",
            param="lexicon",
        )
    return atoms


def _text(value: object) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise InvalidRequest(f"'{value}' is no text: put it in quotes.", param="lexicon")
    return str(value)
