"""Random sentences for measurements of speed. All differ, so that no prefix is shared."""

from __future__ import annotations

import random

WORDS = (
    "river",
    "morning",
    "window",
    "yellow",
    "paper",
    "quiet",
    "engine",
    "garden",
    "winter",
    "seven",
    "market",
    "silver",
    "letter",
    "corner",
    "summer",
    "bridge",
    "gentle",
    "thunder",
    "music",
    "table",
    "after",
    "under",
    "over",
    "never",
    "often",
    "early",
    "later",
    "little",
    "open",
    "round",
    "simple",
    "steady",
    "wooden",
)


def sentence(chars: int, seed: int) -> str:
    """Returns a sentence of about this many characters. The same seed gives the same sentence."""
    rng = random.Random(seed)
    words = [rng.choice(WORDS)]
    while sum(map(len, words)) + len(words) < chars:
        words.append(rng.choice(WORDS))
    return " ".join(words).capitalize() + "."
