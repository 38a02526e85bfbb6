"""Keeps samples below full scale, without delay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rhapsode.types import Samples

CEILING = 10 ** (-1 / 20)
"""The highest sample: 1 dB below full scale, which leaves room for what filters and codecs add."""

_RELEASE_DB_PER_S = 60.0


class Limiter:
    """Turns the gain down at once where a sample is above the ceiling, and back up slowly.

    The envelope is the highest level so far, falling at a constant rate. It is computed as the running maximum of
    levels that rise at that rate. This needs no loop over samples, and is exact however the samples are cut.
    """

    def __init__(self, sample_rate: int) -> None:
        self._fall_db = _RELEASE_DB_PER_S / sample_rate
        self._highest_db = -np.inf
        self._seen = 0

    def write(self, samples: Samples) -> Samples:
        length = samples.shape[1]
        if not length:
            return samples
        peaks = np.abs(samples.astype(np.float64)).max(axis=0)
        rise_db = (np.arange(self._seen, self._seen + length)) * self._fall_db
        risen_db = np.maximum.accumulate(20 * np.log10(np.maximum(peaks, 1e-9)) + rise_db)
        risen_db = np.maximum(risen_db, self._highest_db)
        self._highest_db, self._seen = float(risen_db[-1]), self._seen + length
        gain = np.minimum(1.0, CEILING / 10 ** ((risen_db - rise_db) / 20))
        return np.clip(samples * gain, -CEILING, CEILING).astype(np.float32)
