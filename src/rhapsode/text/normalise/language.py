"""Finds the normalisation rules of a language."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from functools import cache

from rhapsode.text.normalise.window import CLOSING, OPENING, Rule, Spoken, WordWindow

_MODULES = {
    "en": "english.rules",
    "de": "european",
    "fr": "european",
    "es": "european",
    "it": "european",
    "pt": "european",
    "ru": "european",
    "zh": "east_asian",
    "ja": "east_asian",
    "ko": "east_asian",
}
AROUND = OPENING + CLOSING
LANGUAGES = tuple(_MODULES)
"""Codes of the languages that can be normalised."""


class Language:
    """The rules of one language, tried in their order."""

    def __init__(self, rules: Sequence[Rule], words: Iterable[str]) -> None:
        """`words`: all words without digits or signs that a rule begins with."""
        self._rules = rules
        self._words = frozenset(words)

    def is_plain(self, token: str) -> bool:
        """Whether a word is said as it is written, whatever follows; most words are."""
        core = token.strip(AROUND)
        return core.isalpha() and core not in self._words

    def read(self, window: WordWindow) -> Spoken | None:
        """Returns how the first words of a window are said; `None` if they are said as they are written."""
        if not window.word.core:
            return None
        for rule in self._rules:
            if (spoken := rule(window)) is not None:
                return spoken
        return None


@cache
def language_of(code: str) -> Language | None:
    """Returns the rules of a language; `None` if there are none."""
    if code not in _MODULES:
        return None
    module = importlib.import_module(f"rhapsode.text.normalise.{_MODULES[code]}")
    return Language(module.rules(code), module.words(code))


def language_of_letter(char: str) -> str:
    """Returns the language that a letter is most likely from, for text whose language is not given."""
    if "\u3040" <= char <= "\u30ff":
        return "ja"
    if "\uac00" <= char <= "\ud7af" or "\u1100" <= char <= "\u11ff":
        return "ko"
    if "\u3400" <= char <= "\u9fff":
        return "zh"
    return "ru" if "\u0400" <= char <= "\u04ff" else "en"
