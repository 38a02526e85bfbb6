"""The loudness of a recording, as pyloudnorm measures it: ITU-R BS.1770 with filters of its own.

`rhapsode.audio.loudness` has the filters of the standard. A voice depends a little on its recording's level, so this is
measured as the reference implementation does.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

BLOCK_S, OVERLAP = 0.4, 0.75
GATE_LUFS, RELATIVE_GATE_LU = -70.0, -10.0
_OFFSET_DB = -0.691
_SHELF_DB, _SHELF_Q, _SHELF_HZ = 4.0, 1 / math.sqrt(2), 1500.0
_HIGH_PASS_Q, _HIGH_PASS_HZ = 0.5, 38.0
_SETTLED_S = 1.0  # after which nothing is heard of the filters any more

Floats = NDArray[np.float64]


def gain_to(audio: NDArray[np.float32], rate: int, loudness: float) -> float:
    """Returns the factor that brings `audio [N]` to `loudness` LUFS: 1 if it is silent, or shorter than a block."""
    measured = measured_loudness(audio.astype(np.float64), rate)
    return float(10 ** ((loudness - measured) / 20)) if math.isfinite(measured) else 1.0


def measured_loudness(audio: Floats, rate: int) -> float:
    """Returns the loudness in LUFS; minus infinity if `audio [N]` is silent or shorter than a block."""
    powers = _block_powers(_weighted(audio, rate), rate)
    heard = powers[_lufs(powers) >= GATE_LUFS]
    if not len(heard):
        return -math.inf
    least = float(_lufs(heard.mean())) + RELATIVE_GATE_LU
    return float(_lufs(powers[(_lufs(powers) > least) & (_lufs(powers) > GATE_LUFS)].mean()))


def _lufs(power: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return _OFFSET_DB + 10 * np.log10(power)


def _block_powers(audio: Floats, rate: int) -> Floats:
    step = 1 - OVERLAP
    count = round((len(audio) / rate - BLOCK_S) / (BLOCK_S * step)) + 1
    places = [(int(BLOCK_S * i * step * rate), int(BLOCK_S * (i * step + 1) * rate)) for i in range(max(0, count))]
    return np.array([np.square(audio[start:stop]).sum() / (BLOCK_S * rate) for start, stop in places])


def _weighted(audio: Floats, rate: int) -> Floats:
    """Applies both filters: in the spectrum, with so many zeros at the end that what they add there has faded."""
    length = len(audio) + round(_SETTLED_S * rate)
    z = np.exp(-2j * np.pi * np.arange(length // 2 + 1) / length)
    response = _shelf(z, rate) * _high_pass(z, rate)
    return np.fft.irfft(np.fft.rfft(audio, length) * response, length)[: len(audio)]


def _shelf(z: NDArray[np.complex128], rate: int) -> NDArray[np.complex128]:
    a, angle = 10 ** (_SHELF_DB / 40), 2 * math.pi * _SHELF_HZ / rate
    cos, side = math.cos(angle), math.sin(angle) / _SHELF_Q * math.sqrt(a)
    top = (a + 1 + (a - 1) * cos + side, -2 * (a - 1 + (a + 1) * cos), a + 1 + (a - 1) * cos - side)
    bottom = (a + 1 - (a - 1) * cos + side, 2 * (a - 1 - (a + 1) * cos), a + 1 - (a - 1) * cos - side)
    return a * np.polyval(top[::-1], z) / np.polyval(bottom[::-1], z)


def _high_pass(z: NDArray[np.complex128], rate: int) -> NDArray[np.complex128]:
    angle = 2 * math.pi * _HIGH_PASS_HZ / rate
    cos, side = math.cos(angle), math.sin(angle) / (2 * _HIGH_PASS_Q)
    top, bottom = ((1 + cos) / 2, -(1 + cos), (1 + cos) / 2), (1 + side, -2 * cos, 1 - side)
    return np.polyval(top[::-1], z) / np.polyval(bottom[::-1], z)
