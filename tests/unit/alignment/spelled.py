"""Frames of an imaginary acoustic model that hears every letter of what is said, and tests of the search with it."""

from dataclasses import dataclass

import numpy as np

SYMBOLS = ("", " ", *"abcdefghijklmnopqrstuvwxyz", "'")


@dataclass(frozen=True)
class Said:
    """Frames of log probabilities, which of them are near silence, and the frames of each word."""

    log_probs: np.ndarray
    quiet: np.ndarray
    words: list[tuple[int, int]]


def letters(word: str) -> list[int]:
    return [SYMBOLS.index(letter) for letter in word]


def frames(labels: list[int], noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """Log probabilities of a model that is sure of these symbols, with noise in them."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0.0, noise, (len(labels), len(SYMBOLS)))
    scores[np.arange(len(labels)), labels] += 8.0
    return (scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)).astype(np.float32)


def say(words: list[str], seed: int = 0, noise: float = 1.0, gap: tuple[int, int] = (0, 12)) -> Said:
    """Says words, each letter for a few frames; where a gap is 0 frames, one word follows the other at once."""
    rng = np.random.default_rng(seed)
    labels: list[int] = [1] * int(rng.integers(1, 8))
    quiet: list[bool] = [True] * len(labels)
    spans: list[tuple[int, int]] = []
    for word in words:
        start, before = len(labels), 0
        for symbol in letters(word):
            if symbol == before or rng.random() < 0.3:  # a blank, as CTC models have between letters
                labels.append(0)
            labels += [symbol] * int(rng.integers(1, 5))
            before = symbol
        if labels[start] == 0:
            start += 1
        spans.append((start, len(labels)))
        quiet += [False] * (len(labels) - len(quiet))
        labels += [1] * int(rng.integers(*gap)) or [0]
        quiet += [True] * (len(labels) - len(quiet))
    labels += [1] * 20
    quiet += [True] * 20
    return Said(frames(labels, noise, seed), np.array(quiet), spans)
