"""Sentences to be spoken where it does not matter what they say: all different, so that no prompt is shared."""

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
    """About this many characters."""
    rng = random.Random(seed)
    words = [rng.choice(WORDS)]
    while sum(map(len, words)) + len(words) < chars:
        words.append(rng.choice(WORDS))
    return " ".join(words).capitalize() + "."
