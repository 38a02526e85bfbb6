"""The silence around sentences is cut as the rule says, whoever else is in the launch."""

import numpy as np
import pytest
import torch

from rhapsode.audio.join import Joiner
from rhapsode.models.kokoro.trim import Edges, trimmed

RATE = 24_000


def spoken(before_s: float, speech_s: float, after_s: float, seed: int = 0) -> np.ndarray:
    """Noise between silence that is not quite silent."""
    parts = ((before_s, 1e-4), (speech_s, 0.1), (after_s, 1e-4))
    noise = np.random.default_rng(seed)
    return np.concatenate([noise.normal(0, level, round(s * RATE)) for s, level in parts]).astype(np.float32)


def launched(rows: list[np.ndarray], edges: list[Edges | None]) -> list[np.ndarray]:
    """What a launch makes of these sentences, without the zeros at their ends."""
    size = max(map(len, rows)) + 700  # padding
    samples = torch.from_numpy(np.stack([np.pad(row, (0, size - len(row))) for row in rows]))
    made = trimmed(samples, [len(row) for row in rows], edges, RATE).numpy()
    return [row[: np.flatnonzero(row)[-1] + 1] if row.any() else row[:0] for row in made]


@pytest.mark.parametrize("pause_s", [0.0, 0.06, 0.25, 1.0])
def test_sentences_are_joined_as_the_joiner_of_other_families_joins_them(pause_s: float) -> None:
    rows = [spoken(0.3, 1.0, 0.5), spoken(0.011, 0.4, 0.3, 1), spoken(0.35, 0.7, 0.2, 2)]
    edges = [Edges.of(pause_s, RATE, is_first=i == 0) for i in range(len(rows))]
    joiner = Joiner(RATE, pause_s=pause_s)
    wanted = [joiner.add(row[None])[0] for row in rows]
    for made, expected in zip(launched(rows, list(edges)), wanted, strict=True):
        assert made.shape == expected.shape
        assert np.abs(made - expected).max() < 1e-6


def test_a_sentence_is_cut_alone_as_in_a_crowd_and_others_stay_as_they_are() -> None:
    rows = [spoken(0.3, 1.0, 0.5), spoken(0.2, 0.4, 0.8, 1)]
    cut = Edges.of(0.25, RATE, is_first=True)
    first, second = launched(rows, [cut, None])
    assert np.array_equal(first, launched(rows[:1], [cut])[0])
    assert np.array_equal(second, rows[1])


def test_a_sentence_without_a_sound_is_left_out_with_its_pause() -> None:
    assert launched([spoken(0.5, 0.0, 0.0)], [Edges.of(0.25, RATE, is_first=False)])[0].size == 0


def test_what_is_not_a_number_is_not_silence() -> None:
    row = spoken(0.5, 0.0, 0.0)
    row[6000] = np.nan
    assert np.isnan(launched([row], [Edges.of(0.25, RATE, is_first=True)])[0]).any()
