"""Error rates by the rules that publications use: Whisper's for words, and the usual ones for characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rhapsode.bench.quality import whisper_english
from rhapsode.bench.quality.words import share_wrong

BY_CHARACTER = ("zh", "yue", "ja", "ko", "th", "lo", "my", "km")
"""Languages that are scored by character: most of them write no spaces, and Korean sets them in many ways."""


@dataclass(frozen=True)
class Rule:
    """How texts of one language are compared."""

    normaliser: str
    metric: str
    """`wer` or `cer`."""


def rule_of(language: str) -> Rule:
    if language.split("-")[0] in BY_CHARACTER:
        return Rule("characters", "cer")
    return Rule(whisper_english.NAME if language.startswith("en") else "whisper-basic (rules)", "wer")


def units(text: str, language: str) -> list[str]:
    """Returns the words of a text, or its characters, that are compared."""
    rule = rule_of(language)
    if rule.metric == "cer":
        plain = unicodedata.normalize("NFKC", text).lower()
        return [char for char in plain if unicodedata.category(char)[0] in "LNM"]
    if language.startswith("en"):
        return whisper_english.normalise(text).split()
    plain = unicodedata.normalize("NFKC", text).lower()
    return "".join(char if unicodedata.category(char)[0] not in "MSPZ" else " " for char in plain).split()


def rate(pairs: Sequence[tuple[str, str]], language: str) -> float | None:
    """Returns all edits over all units of pairs of reference and hypothesis; None where no reference has any unit."""
    split = [(units(reference, language), units(hypothesis, language)) for reference, hypothesis in pairs]
    return share_wrong([(" ".join(wanted), " ".join(heard)) for wanted, heard in split if wanted])
