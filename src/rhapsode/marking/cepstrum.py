"""The cepstrum of audio: the spectrum of the logarithm of its spectrum, in which an echo is a peak at its lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from rhapsode.marking.pattern import band

if TYPE_CHECKING:
    from numpy.typing import NDArray

WINDOW, HOP = 1792, 448  # samples at 16 kHz: more than twice the longest lag
FINER = 4
LAG_S = 1 / 16_000 / FINER
"""The lag between neighbouring values of `average`."""

_ENVELOPE_HZ = 300.0
_FLOOR = 1.0  # relative to the envelope: power far below it is noise of a codec
_SILENCE = 1e-6  # relative to the loudest frame: frames with less energy are silent
_DEAD = 1e-7  # relative to the strongest frequency: weaker ones were removed by a low-pass filter
_CLIP = 1.5  # in mean deviations: a voice's pitch is a large value in a few frames
_AT_ONCE = 1024


def frames_in(seconds: float) -> int:
    return round(seconds * 16_000 / HOP)


def cepstra(samples: NDArray[np.float32], sample_rate: int) -> NDArray[np.float32]:
    """Returns the cepstrum of every frame that is not silent: `[frames, WINDOW // 2]`. The rate must be 16 kHz."""
    assert sample_rate == 16_000
    if len(samples) < WINDOW:
        return np.zeros((0, WINDOW // 2), np.float32)
    frames = sliding_window_view(samples, WINDOW)[::HOP]
    window = np.hanning(WINDOW + 1)[:-1].astype(np.float32)
    blocks = [frames[start : start + _AT_ONCE] for start in range(0, len(frames), _AT_ONCE)]
    powers = np.concatenate([np.abs(np.fft.rfft(block * window)).astype(np.float32) ** 2 for block in blocks])
    weight = band(np.arange(WINDOW // 2 + 1) * (sample_rate / WINDOW)).astype(np.float32)
    mean = _smooth(powers.mean(axis=0, keepdims=True), 13)[0]
    weight *= mean > _DEAD * mean.max()
    energy = powers @ weight
    heard = powers[energy > _SILENCE * energy.max()]
    return np.concatenate(
        [_cepstra(heard[start : start + _AT_ONCE], weight) for start in range(0, max(1, len(heard)), _AT_ONCE)]
    )


def _cepstra(powers: NDArray[np.float32], weight: NDArray[np.float32]) -> NDArray[np.float32]:
    envelope = _smooth(powers, round(_ENVELOPE_HZ * WINDOW / 16_000) | 1) + np.float32(1e-30)
    logs = np.log(powers / envelope + _FLOOR)
    logs -= (logs @ weight / (weight.sum() + np.float32(1e-30)))[:, None]
    return np.fft.irfft(logs * weight)[:, : WINDOW // 2].astype(np.float32)


def average(frames: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns the mean over all frames, in units of its deviation, at a finer grid of lags: one value per `LAG_S`."""
    deviation = _smooth(np.abs(frames).mean(axis=0, keepdims=True), 17) * 1.25 + 1e-12
    mean = np.clip(frames / deviation, -_CLIP, _CLIP).mean(axis=0, dtype=np.float64)
    spectrum = np.fft.rfft(np.concatenate((mean, mean[::-1])))
    return np.fft.irfft(spectrum, 2 * FINER * len(mean))[: FINER * len(mean)] * FINER


def _smooth(rows: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Returns the moving average of every row over an odd number of values."""
    padded = np.pad(rows, ((0, 0), (width // 2 + 1, width // 2)), mode="edge")
    sums = np.cumsum(padded, axis=1, dtype=np.float64)
    return ((sums[:, width:] - sums[:, :-width]) / width).astype(np.float32)
