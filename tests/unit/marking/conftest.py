"""A voice that tests of marking share: no words, but the pitch, the formants and the pauses of speech."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

RATE = 24_000


def speech_like(seconds: float, sample_rate: int = RATE, seed: int = 0) -> np.ndarray:
    chance = np.random.default_rng(seed)
    length = round(seconds * sample_rate)
    knots = round(seconds * 4) + 2
    t = np.linspace(0, knots - 1, length)
    hz = np.interp(t, np.arange(knots), chance.uniform(90, 220, knots))
    level = np.interp(t, np.arange(knots), chance.uniform(0, 1, knots) ** 2)
    phase = 2 * np.pi * np.cumsum(hz) / sample_rate
    formants = [np.interp(t, np.arange(knots), chance.uniform(*span, knots)) for span in ((300, 900), (900, 2500))]
    voiced = np.zeros(length)
    for harmonic in range(1, 40):
        at = harmonic * hz
        gain = sum(1 / (1 + ((at - formant) / 200) ** 2) for formant in formants) + 0.02
        voiced += gain * np.sin(harmonic * phase)
    breath = chance.normal(size=length) * np.interp(t, np.arange(knots), chance.uniform(0.01, 0.5, knots))
    wave = level * (voiced + breath) + 1e-4 * chance.normal(size=length)
    return (0.3 * wave / np.abs(wave).max()).astype(np.float32)[None]


@pytest.fixture(scope="session")
def voice() -> Callable[..., np.ndarray]:
    return speech_like
