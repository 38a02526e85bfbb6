"""Resampling by Hann-windowed sinc interpolation.

Several families resample reference audio with torchaudio's default settings. This gives the same samples without that
dependency. Everything else uses `resample.py`, which has a longer filter.
"""

from __future__ import annotations

from math import ceil, gcd
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Signal = TypeVar("Signal", NDArray[np.float32], NDArray[np.float64])

ZERO_CROSSINGS = 6
"""Zero crossings of the sinc on each side of its centre, where the window ends."""
ROLLOFF = 0.99
"""The cutoff, as a fraction of the lower of the two Nyquist frequencies."""

_BLOCK = 4096  # output samples at a time: their windows are copied


def resample_sinc(samples: Signal, from_rate: int, to_rate: int) -> Signal:
    """Returns float32 or float64 samples `[channels, n]` at another rate: `[channels, ceil(n * to_rate / from_rate)]`.

    The filter is computed in float64 and applied in the type of the samples. There is silence before and after them.
    """
    if samples.ndim != 2 or samples.dtype not in (np.float32, np.float64):
        raise ValueError(f"expected float samples of shape [channels, n], got {samples.dtype} {list(samples.shape)}")
    if from_rate < 1 or to_rate < 1:
        raise ValueError(f"sample rates must be positive, got {from_rate} and {to_rate}")
    if from_rate == to_rate:
        return samples
    common = gcd(from_rate, to_rate)
    step, phases = from_rate // common, to_rate // common
    taps = _taps(step, phases).astype(samples.dtype)
    width = taps.shape[1]
    windows = sliding_window_view(np.pad(samples, ((0, 0), (width // 2, width // 2))), width, axis=1)
    out = np.empty((samples.shape[0], -(-samples.shape[1] * phases // step)), samples.dtype)
    for start in range(0, out.shape[1], _BLOCK):
        block = out[:, start : start + _BLOCK]
        before, phase = np.divmod(np.arange(start, start + block.shape[1]) * step, phases)
        np.einsum("cnt,nt->cn", windows[:, before + 1], taps[phase], out=block)
    return out


def _taps(step: int, phases: int) -> NDArray[np.float64]:
    """Returns the filters `[phases, taps]`: row p is for an output that lies p / phases after an input sample.

    The input sample itself is in the middle, at taps // 2 - 1.
    """
    cutoff = ROLLOFF * min(1.0, phases / step)  # zero crossings per input sample
    reach = ceil(ZERO_CROSSINGS / cutoff)
    after = np.arange(phases)[:, None] / phases
    distance = (np.arange(1 - reach, 1 + reach) - after) * cutoff
    window = np.cos(np.clip(distance / ZERO_CROSSINGS, -1.0, 1.0) * (np.pi / 2)) ** 2
    filters: NDArray[np.float64] = np.sinc(distance) * window * cutoff
    return filters
