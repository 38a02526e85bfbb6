"""A lexicon: words with respellings that make a model pronounce them correctly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from rhapsode.config import parse_yaml
from rhapsode.errors import ConfigError, InvalidRequest
from rhapsode.text.spoken import RunBuffer, SpokenRun, joined

MOST_WORD_CHARS, MOST_SPOKEN_CHARS = 100, 300
MOST_ATOMS = 24
"""The most atoms of one entry: words, signs and the spaces between them."""

_ATOM = re.compile(r"\s+|[\u3005-\u30ff\u3400-\u9fff]|[^\W_\u3005-\u30ff\u3400-\u9fff]+|.")
"""White space, one Chinese or Japanese character, a word, or a sign."""

Atoms = tuple[str, ...]


class Lexicon:
    """Respellings by word. A word in lower case matches any case; a word with a capital matches only this spelling."""

    def __init__(self, entries: Mapping[str, str] | None = None) -> None:
        self.entries = dict(entries or {})
        self._by_first: dict[str, list[tuple[Atoms, str]]] = {}
        for word, spoken in self.entries.items():
            _check(word, spoken)
            atoms = tuple(atoms_of(word.strip()))
            self._by_first.setdefault(atoms[0].lower(), []).append((atoms, spoken))
        for same_first in self._by_first.values():
            # The longest entry is tried first; of equally long ones, that with a capital, which matches fewer texts.
            same_first.sort(key=lambda entry: (-len(entry[0]), "".join(entry[0]).islower()))

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
        """Returns a lexicon with these entries, which override its own."""
        return Lexicon(self.entries | dict(entries)) if entries else self

    def candidates(self, first: str) -> list[tuple[Atoms, str]]:
        """Returns the entries that begin with a word, the longest first."""
        return self._by_first.get(first.lower(), [])


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
        buffer, found, at = self._buffer, list[SpokenRun](), 0
        while at < len(buffer.text):
            first = _ATOM.match(buffer.text, at)
            assert first is not None
            goes_on = first.end() == len(buffer.text) and not closed and _is_word(first[0])
            is_rest = self._in_word and _is_word(first[0])
            if goes_on and not is_rest and first.end() - at <= MOST_WORD_CHARS:
                break
            self._in_word = goes_on
            match = (first.end(), None) if is_rest or goes_on else self._match(at, first[0], closed)
            if match is None:
                break
            stop, spoken = match
            if spoken is None:
                found += buffer.runs(at, stop)
            else:
                found.append(SpokenRun(spoken, *buffer.span(at, stop), fixed=True))
            at = stop
        buffer.drop(at)
        return joined(found)

    def _match(self, at: int, first: str, closed: bool) -> tuple[int, str | None] | None:
        """Returns where the entry that begins here ends, and its respelling; `None`: it depends on later text."""
        text = self._buffer.text
        atoms, ends = [first], [at + len(first)]
        for entry, spoken in self._lexicon.candidates(first):
            while len(atoms) < len(entry) and (found := _ATOM.match(text, ends[-1])):
                atoms.append(found[0])
                ends.append(found.end())
            undecided = len(atoms) < len(entry) or (ends[len(entry) - 1] == len(text) and entry[-1].isalnum())
            if undecided and not closed and _begins(atoms[: len(entry)], entry):
                return None
            if len(atoms) >= len(entry) and _is_same(atoms[: len(entry)], entry):
                return ends[len(entry) - 1], spoken
        return ends[0], None


def atoms_of(text: str) -> list[str]:
    """Returns the words, signs and blanks of a text."""
    return [" " if atom.isspace() else atom for atom in _ATOM.findall(text)]


def _is_word(atom: str) -> bool:
    """Whether later text may continue an atom: letters and digits, not a Chinese or Japanese character."""
    return atom.isalnum() and not "\u3005" <= atom[0] <= "\u30ff" and not "\u3400" <= atom[0] <= "\u9fff"


def _is_same(atoms: list[str], entry: Atoms) -> bool:
    return all(_matches(atom, wanted) for atom, wanted in zip(atoms, entry, strict=True))


def _begins(atoms: list[str], entry: Atoms) -> bool:
    """Whether these atoms can become the entry, if later text continues the last one."""
    *whole, last = atoms
    wanted = entry[len(whole)]
    same = all(_matches(atom, part) for atom, part in zip(whole, entry, strict=False))
    return same and (_matches(last, wanted) or wanted.lower().startswith(last.lower()))


def _matches(atom: str, wanted: str) -> bool:
    if wanted == " ":
        return atom.isspace() and atom.count("\n") < 2
    return (atom.lower() if wanted.islower() else atom) == wanted


def _check(word: str, spoken: str) -> None:
    if not word.strip() or not spoken.strip():
        raise InvalidRequest(f"the lexicon has an empty word or respelling: '{word}'.", param="lexicon")
    if len(word) > MOST_WORD_CHARS or len(spoken) > MOST_SPOKEN_CHARS or len(atoms_of(word)) > MOST_ATOMS:
        raise InvalidRequest(
            f"a word of the lexicon has at most {MOST_WORD_CHARS} characters and {MOST_ATOMS} words and signs, "
            f"a respelling {MOST_SPOKEN_CHARS} characters: '{word[:40]}'.",
            param="lexicon",
        )


def _text(value: object) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise InvalidRequest(f"'{value}' is no text: put it in quotes.", param="lexicon")
    return str(value)
