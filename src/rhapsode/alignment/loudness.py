"""Measures how loud each frame of speech is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

SILENT_DB = -60.0
"""A quieter frame is always near silence."""
BELOW_PEAK_DB = 40.0
"""A frame that is this much below the loudest frame so far is near silence."""


class Loudness:
    """Measures the level of whole frames, in dB of full scale. The result does not depend on how samples are cut."""

    def __init__(self, frame: int) -> None:
        """`frame`: samples of a frame."""
        self._frame = frame
        self._rest: Floats = np.zeros(0, np.float32)
        self._peak_db = SILENT_DB

    def write(self, samples: Floats) -> Floats:
        samples = np.concatenate((self._rest, samples))
        whole = len(samples) - len(samples) % self._frame
        self._rest = samples[whole:]
        power = np.square(samples[:whole].reshape(-1, self._frame)).mean(1)
        levels: Floats = (10 * np.log10(power + 1e-12)).astype(np.float32)
        return levels

    def quiet(self, levels: Floats) -> NDArray[np.bool_]:
        """Returns which of the next frames are near silence."""
        peaks = np.maximum.accumulate(np.r_[np.float32(self._peak_db), levels])[1:]
        if len(peaks):
            self._peak_db = float(peaks[-1])
        return levels < np.maximum(SILENT_DB, peaks - BELOW_PEAK_DB)
