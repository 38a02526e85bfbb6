"""Changes the sample rate with soxr, as a stream or at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rhapsode.audio.samples import shaped, silence

if TYPE_CHECKING:
    import soxr
    from numpy.typing import NDArray

    from rhapsode.types import Clip, Samples


class Resampler:
    """A streaming resampler. The result does not depend on how the samples are cut into chunks."""

    def __init__(self, from_rate: int, to_rate: int, channels: int = 1) -> None:
        self._channels = channels
        self._stream = None if from_rate == to_rate else _stream(from_rate, to_rate, channels)
        self._closed = False

    def write(self, samples: Samples) -> Samples:
        if self._closed:
            raise ValueError("the resampler is closed")
        samples = shaped(samples, self._channels)
        return samples if self._stream is None else self._push(samples)

    def close(self) -> Samples:
        """Returns the samples that the filter still holds. A second call returns none."""
        nothing = silence(self._channels)
        if self._closed or self._stream is None:
            self._closed = True
            return nothing
        self._closed = True
        return self._push(nothing, last=True)

    def _push(self, samples: Samples, last: bool = False) -> Samples:
        assert self._stream is not None
        out: Samples = self._stream.resample_chunk(np.ascontiguousarray(samples.T), last=last)
        return np.ascontiguousarray(out.T)


def _stream(from_rate: int, to_rate: int, channels: int) -> soxr.ResampleStream:
    import soxr  # the engine is also measured on machines without soxr

    return soxr.ResampleStream(from_rate, to_rate, channels, dtype="float32")


def resample(samples: Samples, from_rate: int, to_rate: int) -> Samples:
    """Returns the samples at another rate."""
    resampler = Resampler(from_rate, to_rate, samples.shape[0])
    return np.concatenate((resampler.write(samples), resampler.close()), axis=1)


def mono(clip: Clip, sample_rate: int) -> NDArray[np.float32]:
    """Returns the mean of all channels of a clip at this rate: `[samples]`.

    A fraction of a sample at the end counts as one, as librosa counts it. soxr rounds to the nearest.
    """
    mixed = clip.samples.mean(axis=0, dtype=np.float32, keepdims=True)
    length = -(-mixed.shape[1] * sample_rate // clip.sample_rate)
    resampled = resample(mixed, clip.sample_rate, sample_rate)[0, :length]
    return np.pad(resampled, (0, length - len(resampled)))
