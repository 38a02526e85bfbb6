"""Adds the watermark to audio, as a stream.

The watermark is a very quiet, pseudo-random reverberation of the audio itself: an echo filter whose coefficients are
the chips of the payload (see `pattern.py`). So it follows the level and the spectrum of the speech, which masks it, and
silence stays silent. The first echo comes after one block, so that a block's echo is known before the block arrives:
there is no delay, and the result does not depend on how the samples are cut into chunks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from rhapsode.audio.samples import shaped, silence
from rhapsode.marking.pattern import BLOCK_S, BLOCKS, echoes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rhapsode.marking.payload import Payload
    from rhapsode.types import Samples


class Watermark:
    """A streaming transform that adds a payload to the samples; it returns as many samples as it takes."""

    def __init__(self, payload: Payload, sample_rate: int, channels: int = 1) -> None:
        self._channels = channels
        self._block = block_samples(sample_rate)
        self._filters = _filters(payload, sample_rate)
        # Whole blocks of the past, then the samples of the current block that have arrived.
        self._past = silence(channels, BLOCKS * self._block)

    def write(self, samples: Samples) -> Samples:
        samples = shaped(samples, self._channels)
        begun = self._past.shape[1] - BLOCKS * self._block
        joined = np.concatenate((self._past, samples), axis=1)
        echo = self._echo(joined)[:, begun : begun + samples.shape[1]]
        current = joined.shape[1] % self._block
        self._past = joined[:, joined.shape[1] - BLOCKS * self._block - current :].copy()
        return (samples + echo).astype(np.float32)

    def close(self) -> Samples:
        return silence(self._channels)

    def _echo(self, joined: Samples) -> NDArray[np.float64]:
        """Returns the echo of every block after the first `BLOCKS`, by partitioned convolution."""
        block = self._block
        blocks = -(-joined.shape[1] // block) - BLOCKS
        if blocks == 0:
            return np.zeros((self._channels, 0))
        pairs = sliding_window_view(joined[:, : (blocks + BLOCKS - 1) * block], 2 * block, axis=1)[:, ::block]
        spectra = np.fft.rfft(pairs.astype(np.float64))
        summed = np.zeros((self._channels, blocks, block + 1), np.complex128)
        for delay, response in enumerate(self._filters):
            newest = BLOCKS - 2 - delay
            summed += spectra[:, newest : newest + blocks] * response
        return np.fft.irfft(summed, 2 * block)[:, :, block:].reshape(self._channels, -1)


def block_samples(sample_rate: int) -> int:
    return int(sample_rate * BLOCK_S)


@lru_cache(64)
def _filters(payload: Payload, sample_rate: int) -> NDArray[np.complex128]:
    """Returns the echo filter in parts of one block each, as spectra: `[BLOCKS - 1, block + 1]`."""
    block = block_samples(sample_rate)
    taps = echoes(payload, sample_rate, BLOCKS * block)[block:].reshape(BLOCKS - 1, block)
    return np.fft.rfft(taps, 2 * block)
