"""Loudness by ITU-R BS.1770: how loud audio is for ears, in LUFS.

Audio is cut into steps of 100 ms. The power of a step is weighted by frequency in its spectrum (the K curve), so that a
step depends on its own samples alone. A block is the mean of four steps. Blocks below -70 LUFS, and blocks 10 LU below
the mean of the others, are pauses and do not count.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rhapsode.types import Samples

STEP_S = 0.1
BLOCK_STEPS = 4
ABSOLUTE_GATE_LUFS, RELATIVE_GATE_LU = -70.0, -10.0
_OFFSET_DB = -0.691  # so that a sine of 997 Hz at full scale has -3.01 LUFS


def step_samples(sample_rate: int) -> int:
    return round(sample_rate * STEP_S)


def step_power(samples: Samples, sample_rate: int) -> float:
    """Returns the weighted power of one step, of all channels together."""
    spectrum = np.abs(np.fft.rfft(samples.astype(np.float64), axis=1)) ** 2
    weighted = (spectrum * _weights(samples.shape[1], sample_rate)).sum()
    return float(weighted / samples.shape[1] ** 2)


def lufs(power: float) -> float:
    return _OFFSET_DB + 10 * math.log10(power) if power > 0 else -math.inf


def gated_blocks(blocks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the powers of the blocks that are not pauses."""
    heard = blocks[blocks > _power(ABSOLUTE_GATE_LUFS)]
    if not heard.size:
        return heard
    loud: NDArray[np.float64] = heard[heard > heard.mean() * 10 ** (RELATIVE_GATE_LU / 10)]
    return loud


def integrated_loudness(samples: Samples, sample_rate: int) -> float:
    """Returns the loudness of whole audio; minus infinity where it is silent or shorter than a block."""
    size = step_samples(sample_rate)
    steps = [step_power(samples[:, at : at + size], sample_rate) for at in range(0, samples.shape[1] - size + 1, size)]
    if len(steps) < BLOCK_STEPS:
        return -math.inf
    blocks = np.convolve(steps, np.full(BLOCK_STEPS, 1 / BLOCK_STEPS), "valid")
    heard = gated_blocks(blocks)
    return lufs(float(heard.mean())) if heard.size else -math.inf


def _power(loudness: float) -> float:
    return float(10 ** ((loudness - _OFFSET_DB) / 10))


@cache
def _weights(length: int, sample_rate: int) -> NDArray[np.float64]:
    """Returns the power gain of the K curve at every frequency of a spectrum of so many samples."""
    frequencies = np.arange(length // 2 + 1)
    z = np.exp(-2j * np.pi * frequencies / length)
    sides = np.where((frequencies == 0) | (2 * frequencies == length), 1.0, 2.0)  # half of a spectrum is mirrored
    weights: NDArray[np.float64] = sides * np.abs(_shelf(z, sample_rate) * _high_pass(z, sample_rate)) ** 2
    return weights


def _shelf(z: NDArray[np.complex128], sample_rate: int) -> NDArray[np.complex128]:
    """Returns the response of the shelf filter, which models the head: 4 dB more above 1.7 kHz.

    These are the constants of the standard's filter, for any sample rate.
    """
    k, q = math.tan(math.pi * 1681.9744509555319 / sample_rate), 0.7071752369554196
    high = 10 ** (3.99984385397334 / 20)
    band = high**0.4996667741545416
    top = (high + band * k / q + k * k) + 2 * (k * k - high) * z + (high - band * k / q + k * k) * z * z
    return _over(top, k, q, z)


def _high_pass(z: NDArray[np.complex128], sample_rate: int) -> NDArray[np.complex128]:
    """Returns the response of the high-pass filter: low frequencies are hardly heard."""
    k, q = math.tan(math.pi * 38.13547087602444 / sample_rate), 0.5003270373238773
    # The standard's numerator is 1 - 2z + z², whatever the rate.
    return _over((1 - z) ** 2 * (1 + k / q + k * k), k, q, z)


def _over(top: NDArray[np.complex128], k: float, q: float, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
    bottom: NDArray[np.complex128] = (1 + k / q + k * k) + 2 * (k * k - 1) * z + (1 - k / q + k * k) * z * z
    return top / bottom
