"""The echoes of the watermark: when they come, how loud they are, and how they encode a payload.

480 chips stand 75 µs apart, from 10.5 to 46.4 ms after the sound itself. Each is 1 or -1: the payload's bits, encoded,
shuffled and scrambled. An echo does not move when audio is cut or stretched in time, so a detector needs no
synchronisation; when audio is played faster or slower, all echoes move by the same factor.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rhapsode.marking.code import CHIPS_PER_BIT, encode
from rhapsode.marking.payload import PAYLOAD_BITS, Payload

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]

CHIPS = PAYLOAD_BITS * CHIPS_PER_BIT
CHIP_S = 75e-6
FIRST_LAG_S = 10.5e-3
BLOCK_S = 10e-3
"""No echo comes earlier, so that blocks of this length need no look-ahead."""
BLOCKS = 5
"""The last echo comes within so many blocks."""
LOW_HZ, HIGH_HZ, EDGE_HZ = 250.0, 6500.0, 300.0
LOW_LEVEL, HIGH_LEVEL = 0.064, 0.118
"""Amplitude of all echoes together, below and above 2 kHz: voices are most sensitive in the low bands."""
CROSSOVER_HZ = (1400.0, 3100.0)

_PERIOD_CHIPS = 8000  # 0.6 s, a whole number of samples at the usual sample rates


def lags_s() -> Floats:
    """Returns the time of every chip after the sound itself."""
    return FIRST_LAG_S + CHIP_S * np.arange(CHIPS)


def chips_of(bits: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Returns the chips of a payload's bits in the order of their lags."""
    order, signs = _scrambling()
    chips = np.empty(CHIPS)
    chips[order] = encode(bits)
    return chips * signs


def unscrambled(chips: NDArray[Any]) -> NDArray[Any]:
    """Returns noisy chips `[..., CHIPS]` in the order of the code: undoes `chips_of`, before decoding."""
    order, signs = _scrambling()
    return (chips * signs)[..., order]


def band(hz: Floats) -> Floats:
    """Returns 1 inside the band of the watermark and 0 outside, with smooth edges."""
    return _rise(hz, LOW_HZ - EDGE_HZ / 2, LOW_HZ + EDGE_HZ / 2) * (
        1.0 - _rise(hz, HIGH_HZ - EDGE_HZ / 2, HIGH_HZ + EDGE_HZ / 2)
    )


def echoes(payload: Payload, sample_rate: int, length: int) -> NDArray[np.float64]:
    """Returns the impulse response of the echoes, without the sound itself: `[length]` samples."""
    samples = round(_PERIOD_CHIPS * CHIP_S * sample_rate)
    bins = np.arange(samples // 2 + 1)
    hz = bins * (sample_rate / samples)
    spectrum = np.fft.fft(chips_of(payload.bits()), _PERIOD_CHIPS)[bins % _PERIOD_CHIPS]
    level = LOW_LEVEL + (HIGH_LEVEL - LOW_LEVEL) * _rise(hz, *CROSSOVER_HZ)
    spectrum *= band(hz) * level / np.sqrt(CHIPS) * np.exp(-2j * np.pi * hz * FIRST_LAG_S)
    return np.fft.irfft(spectrum, samples)[:length]


def _rise(hz: Floats, start: float, end: float) -> Floats:
    """Returns a smooth step from 0 at `start` to 1 at `end`."""
    rise: Floats = np.sin(np.pi / 2 * np.clip((hz - start) / (end - start), 0.0, 1.0)) ** 2
    return rise


@lru_cache(1)
def _scrambling() -> tuple[NDArray[np.integer[Any]], Floats]:
    """Returns the order and the signs of the chips. They come from a hash, so that they are the same everywhere."""
    words = np.frombuffer(hashlib.shake_256(b"rhapsode watermark 1").digest(8 * CHIPS), "<u4")
    return np.argsort(words[:CHIPS], kind="stable"), 1.0 - 2.0 * (words[CHIPS:] & 1)
