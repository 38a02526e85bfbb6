"""Signals that tests of audio share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

Array = np.ndarray


@pytest.fixture(scope="session")
def tone() -> Callable[..., Array]:
    """A sine `[channels, n]`; each channel an octave above the one before."""

    def make(hz: float, seconds: float, sample_rate: int = 24_000, channels: int = 1, level: float = 0.3) -> Array:
        t = np.arange(round(seconds * sample_rate)) / sample_rate
        return np.stack([level * np.sin(2 * np.pi * hz * 2**c * t) for c in range(channels)]).astype(np.float32)

    return make


@pytest.fixture(scope="session")
def noise() -> Callable[..., Array]:
    """Repeatable noise `[channels, n]`."""

    def make(length: int, channels: int = 1, level: float = 0.2) -> Array:
        return (np.random.default_rng(7).uniform(-level, level, (channels, length))).astype(np.float32)

    return make


@pytest.fixture(scope="session")
def peak_hz() -> Callable[..., float]:
    """The loudest frequency of one channel."""

    def find(samples: Array, sample_rate: int = 24_000) -> float:
        spectrum = np.abs(np.fft.rfft(samples * np.hanning(samples.size)))
        return float(np.argmax(spectrum) * sample_rate / samples.size)

    return find


@pytest.fixture(scope="session")
def streamed() -> Callable[..., Array]:
    """Feeds samples to a transform in chunks of these lengths (then the rest) and joins what comes out."""

    def run(transform, samples: Array, lengths: Sequence[int]) -> Array:  # type: ignore[no-untyped-def]
        out, at = [], 0
        for length in lengths:
            out.append(transform.write(samples[:, at : at + length]))
            at += length
        out.append(transform.write(samples[:, at:]))
        out.append(transform.close())
        return np.concatenate(out, axis=1)

    return run
