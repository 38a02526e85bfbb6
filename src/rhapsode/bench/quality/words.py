"""Word and character error rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from rhapsode.bench.quality.normalise import normalise
from rhapsode.errors import InvalidRequest, MissingDependency
from rhapsode.extras import how_to_install

OUTLIER = 0.5
"""A prompt with a higher word error rate is listed as an outlier."""


@dataclass(frozen=True)
class Rates:
    wer: float
    cer: float


def rates(reference: str, hypothesis: str, language: str = "en") -> Rates:
    """Returns the error rates of one prompt."""
    return corpus([(reference, hypothesis)], language)


def corpus(pairs: Sequence[tuple[str, str]], language: str = "en") -> Rates:
    """Returns the error rates of pairs of reference and hypothesis: all edits over all words (characters)."""
    jiwer = _jiwer()
    references = [normalise(reference, language) for reference, _ in pairs]
    hypotheses = [normalise(hypothesis, language) for _, hypothesis in pairs]
    if not all(references):
        raise InvalidRequest("a prompt has no words to score: remove it from the list.")
    words = jiwer.process_words(references, hypotheses)
    characters = jiwer.process_characters(references, hypotheses)
    return Rates(float(words.wer), float(characters.cer))


def share_wrong(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Returns the edits of pairs of normalised texts over the words of the first ones; None without any pair."""
    if not pairs:
        return None
    return float(_jiwer().process_words([one for one, _ in pairs], [other for _, other in pairs]).wer)


def _jiwer() -> Any:
    try:
        return import_module("jiwer")
    except ImportError:
        raise MissingDependency(f"error rates need jiwer: {how_to_install('bench')}") from None
