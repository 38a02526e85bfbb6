"""The phonemes of one English word: the lexicon, endings, and the few words whose sound depends on the next word."""

from __future__ import annotations

import re
from typing import Protocol

from rhapsode.text.phonemes import sounds
from rhapsode.text.phonemes.sounds import PRIMARY, SECONDARY
from rhapsode.text.phonemes.table import PhonemeTable, SortedLines

_DOUBLED = re.compile(r"([bcdgklmnprstvxz])\1ing$|cking$")
_NAME_LETTERS = 7
"""Names up to this length are not read as the word in lower case."""
_PARENTS = {"VB": "VERB", "NN": "NOUN", "RB": "ADV", "JJ": "ADJ"}


class Spot(Protocol):
    """The context of a word. Reading a property that depends on text to come raises `Undecided`."""

    @property
    def tag(self) -> str:
        """Its part of speech."""

    @property
    def vowel_next(self) -> bool | None:
        """Whether a vowel follows; `None` for a sign or the end."""

    @property
    def to_next(self) -> bool:
        """Whether the word `to` follows."""


class Pronunciation:
    """Looks words up. The context (`spot`) is read only for words that depend on it."""

    def __init__(self, table: PhonemeTable) -> None:
        self._table = table

    def of(self, word: str, spot: Spot) -> str | None:
        """Returns the phonemes of a word; `None` if the lexicon lacks it."""
        last = max(word.rfind("-"), word.rfind("_"))
        if last >= 0 and word[: last + 1].lower() not in self._table.beginnings:
            return None  # endings change only what is after the hyphen, and no entry has a "_"
        capitals = 0 if word == word.lower() else 2 if word == word.upper() else 1
        found = self._special(word, capitals, spot)
        if found is not None:
            return found
        if self._is_rather_lower(word, spot):
            word = word.lower()
        if self._is_known(word):
            return self._look_up(word, capitals, spot)
        if word.endswith("s'") and self._is_known(word[:-2] + "'s"):
            return self._look_up(word[:-2] + "'s", capitals, spot)
        if word.endswith("'") and self._is_known(word[:-1]):
            return self._look_up(word[:-1], capitals, spot)
        return self._with_ending(word, capitals, spot) or self._name(word)

    def _name(self, word: str) -> str | None:
        """Returns the phonemes of a name. Names have no endings but the genitive: too many are like other words."""
        stem = word.removesuffix("'s")
        found = self._table.names.get(stem.lower())
        return sounds.with_s(found) if found and stem != word else found

    # --- words that need their surroundings ---

    def _special(self, word: str, capitals: int, spot: Spot) -> str | None:
        if "." in word.strip("."):
            letters = word.replace(".", "")
            return self._spelled(letters) if letters.isalpha() and max(map(len, word.split("."))) < 3 else None
        match word.lower():
            case "a":
                return "ɐ" if spot.tag == "DT" else "ˈA"
            case "am":
                if spot.tag.startswith("NN"):
                    return self._spelled(word)
                return "æm" if capitals or spot.vowel_next is None else "ɐm"
            case "an":
                return self._spelled(word) if word == "AN" and spot.tag.startswith("NN") else "ɐn"
            case "i" if word == "I" and spot.tag == "PRP":
                return SECONDARY + "I"
            case "by" if word != "bY" and spot.tag.startswith(("ADV", "RB")):
                return "bˈI"
            case "to" if word != "TO" or spot.tag in ("TO", "IN"):
                return {None: "tu", False: "tə", True: "tʊ"}[spot.vowel_next]
            case "in" if word != "IN" or spot.tag != "NNP":
                return ("" if spot.vowel_next is not None and spot.tag == "IN" else PRIMARY) + "ɪn"
            case "the" if word != "THE" or spot.tag == "DT":
                return "ði" if spot.vowel_next else "ðə"
            case "used":
                return "jˈust" if spot.to_next and spot.tag in ("VBD", "JJ") else "jˈuzd"
        return None

    # --- lexicon ---

    def _look_up(self, word: str, capitals: int, spot: Spot) -> str | None:
        spelled = False
        if word == word.upper() and _find(self._table.gold, word) is None:
            word, spelled = word.lower(), spot.tag == "NNP"
        entry = _find(self._table.gold, word)
        if entry is None and not spelled:
            entry = _find(self._table.silver, word)
        found = _choose(entry, spot) if entry is not None else ""
        if not found or (spelled and PRIMARY not in found):
            letters = self._spelled(word)
            if letters is not None:
                return letters
        return sounds.stressed(found, capitals) if found else None

    def _is_known(self, word: str) -> bool:
        if self._has(word):
            return True
        if not (word.isascii() and word.isalpha()):
            return False
        if len(word) == 1 or (word == word.upper() and _find(self._table.gold, word.lower()) is not None):
            return True
        return word[1:] == word[1:].upper()

    def _has(self, word: str) -> bool:
        return _find(self._table.gold, word) is not None or _find(self._table.silver, word) is not None

    def _is_rather_lower(self, word: str, spot: Spot) -> bool:
        """Whether a word with a capital is read like the same word in lower case."""
        lower = word.lower()
        if len(word) < 2 or word == lower or not word.replace("'", "").isalpha() or self._has(word):
            return False
        if word != word.upper() and word[1:] != word[1:].lower():
            return False
        if not self._has(lower) and self._with_ending(lower, 0, spot) is None:
            return False
        return len(word) > _NAME_LETTERS or spot.tag != "NNP"

    def _spelled(self, letters: str) -> str | None:
        """Returns the names of the letters, the last one stressed."""
        names = [self._table.gold.get(letter.upper()) for letter in letters if letter.isalpha()]
        if None in names or not names:
            return None
        joined = "".join(name.split()[0] for name in names if name)
        return PRIMARY.join(sounds.weakened(sounds.stressed(joined, 1)).rsplit(SECONDARY, 1))

    # --- endings ---

    def _with_ending(self, word: str, capitals: int, spot: Spot) -> str | None:
        for stem_of, ended in ((self._stem_s, sounds.with_s), (self._stem_ed, sounds.with_ed)):
            stem = stem_of(word)
            found = self._look_up(stem, capitals, spot) if stem else None
            if found:
                return ended(found)
        stem = self._stem_ing(word)
        found = self._look_up(stem, capitals or 1, spot) if stem else None
        return sounds.with_ing(found) if found else None

    def _stem_s(self, word: str) -> str | None:
        if len(word) < 3 or not word.endswith("s"):
            return None
        if not word.endswith("ss") and self._is_known(word[:-1]):
            return word[:-1]
        takes_es = len(word) > 4 and word.endswith("es") and not word.endswith("ies")
        if (word.endswith("'s") or takes_es) and self._is_known(word[:-2]):
            return word[:-2]
        if len(word) > 4 and word.endswith("ies") and self._is_known(word[:-3] + "y"):
            return word[:-3] + "y"
        return None

    def _stem_ed(self, word: str) -> str | None:
        if len(word) < 4 or not word.endswith("d"):
            return None
        if not word.endswith("dd") and self._is_known(word[:-1]):
            return word[:-1]
        if len(word) > 4 and word.endswith("ed") and not word.endswith("eed") and self._is_known(word[:-2]):
            return word[:-2]
        return None

    def _stem_ing(self, word: str) -> str | None:
        if len(word) < 5 or not word.endswith("ing"):
            return None
        if len(word) > 5 and self._is_known(word[:-3]):
            return word[:-3]
        if self._is_known(word[:-3] + "e"):
            return word[:-3] + "e"
        if len(word) > 5 and _DOUBLED.search(word) and self._is_known(word[:-4]):
            return word[:-4]
        return None


def _find(lines: SortedLines, word: str) -> str | None:
    """Returns the entry of a word. Without one, returns that of the same word with a capital, or without it."""
    found = lines.get(word)
    if found is not None or len(word) < 2:
        return found
    lower = word.lower()
    if word == lower:
        return lines.get(word.capitalize()) if word.capitalize() != word else None
    return lines.get(lower) if word == lower.capitalize() else None


def _choose(entry: str, spot: Spot) -> str:
    """Returns the reading of an entry that fits the context; it is empty if the word is spelled letter by letter."""
    default, *others = entry.split(" ")
    if not others:
        return default
    by_tag = dict(other.split("=") for other in others)
    if "None" in by_tag and spot.vowel_next is None:
        return by_tag["None"]
    if set(by_tag) == {"None"}:
        return default
    tag = spot.tag
    return by_tag.get(tag, by_tag.get(_PARENTS.get(tag[:2], ""), default))
