"""Word and character error rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rhapsode.bench.quality.normalise import normalise
from rhapsode.errors import InvalidRequest, MissingDependency

OUTLIER = 0.5
"""A prompt with a higher word error rate is listed as an outlier."""


@dataclass(frozen=True)
class Rates:
    wer: float
    cer: float


def rates(written: str, heard: str, language: str = "en") -> Rates:
    """Returns the error rates of one prompt."""
    return corpus([(written, heard)], language)


def corpus(pairs: Sequence[tuple[str, str]], language: str = "en") -> Rates:
    """Returns all edits over all words (characters) of the list: a long sentence counts more than a short one."""
    try:
        import jiwer
    except ImportError:
        raise MissingDependency('error rates need jiwer: pip install "rhapsode[bench]"') from None
    written = [normalise(one, language) for one, _ in pairs]
    heard = [normalise(other, language) for _, other in pairs]
    if not all(written):
        raise InvalidRequest("a prompt has no words to score: remove it from the list.")
    words, characters = jiwer.process_words(written, heard), jiwer.process_characters(written, heard)
    return Rates(float(words.wer), float(characters.cer))
