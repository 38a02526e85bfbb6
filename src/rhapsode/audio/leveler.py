"""Brings speech to a requested loudness, as a stream."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from rhapsode.audio.limiter import Limiter
from rhapsode.audio.loudness import BLOCK_STEPS, gated_blocks, lufs, step_power, step_samples
from rhapsode.audio.samples import shaped, silence
from rhapsode.errors import InvalidRequest

if TYPE_CHECKING:
    from rhapsode.types import Samples

MIN_LOUDNESS, MAX_LOUDNESS = -40.0, -10.0
"""In LUFS. Above the maximum, the limiter would act all the time."""

_USUAL_LUFS = -22.0  # typical loudness of a model's speech
_TRUSTED_BLOCKS = 2.0  # with more blocks, the measured loudness counts more than the typical one
_MEMORY_BLOCKS = 600  # a minute
_MOST_GAIN_DB = 24.0
_MOST_CORRECTION_DB = 2.0


class Leveler:
    """A streaming transform that brings speech to `loudness` LUFS, without delay and without clipping.

    The gain of each step of 100 ms depends on the steps before it alone, so the result does not depend on how the
    samples are cut into chunks. The gain makes up for the difference between the measured and the requested loudness,
    and for half of the error that the output has so far. At first, typical loudness is assumed in place of a
    measurement, so that a soft first sound does not make the next one far too loud. Measurements count more as more
    audio is heard.
    """

    def __init__(self, loudness: float, sample_rate: int, channels: int = 1) -> None:
        check_loudness(loudness)
        self._loudness, self._channels = loudness, channels
        self._size = step_samples(sample_rate)
        self._given, self._made = _Meter(sample_rate, channels), _Meter(sample_rate, channels)
        self._gain_before = self._gain = self._next_gain()
        self._limiter = Limiter(sample_rate)

    def write(self, samples: Samples) -> Samples:
        samples = shaped(samples, self._channels)
        out = [silence(self._channels)]
        while samples.shape[1]:
            now = samples[:, : self._size - self._given.begun]
            samples = samples[:, now.shape[1] :]
            made = self._limiter.write(self._amplified(now))
            out.append(made)
            self._made.add(made)
            if self._given.add(now):
                self._gain_before, self._gain = self._gain, self._next_gain()
        return np.concatenate(out, axis=1)

    def close(self) -> Samples:
        return silence(self._channels)

    def _amplified(self, samples: Samples) -> Samples:
        """Applies the gain, which moves from the gain of the previous step to that of this step."""
        begun = self._given.begun
        ramp = (np.arange(begun, begun + samples.shape[1]) + 1) / self._size
        gain = self._gain_before + (self._gain - self._gain_before) * ramp
        return (samples * gain).astype(np.float32)

    def _next_gain(self) -> float:
        given, count = self._given.reading()
        made, _ = self._made.reading()
        trust = count**2 / (count**2 + _TRUSTED_BLOCKS**2)
        lacking = 0.0 if made is None else (self._loudness - made) / 2
        correction_db = min(max(lacking, -_MOST_CORRECTION_DB), _MOST_CORRECTION_DB)
        expected = _USUAL_LUFS if given is None else trust * given + (1 - trust) * _USUAL_LUFS
        gain_db = self._loudness - expected + trust * correction_db
        return float(10 ** (min(gain_db, _MOST_GAIN_DB) / 20))


class _Meter:
    """Measures the loudness of the last minute, step by step."""

    def __init__(self, sample_rate: int, channels: int) -> None:
        self._rate, self._size = sample_rate, step_samples(sample_rate)
        self._steps: deque[float] = deque(maxlen=BLOCK_STEPS)
        self._blocks: deque[float] = deque(maxlen=_MEMORY_BLOCKS)
        self._step = silence(channels, self._size)
        self.begun = 0
        """The number of samples of the current step so far."""

    def add(self, samples: Samples) -> bool:
        """Adds samples of the current step; returns whether they complete it."""
        end = self.begun + samples.shape[1]
        self._step[:, self.begun : end] = samples
        self.begun = end % self._size
        if end < self._size:
            return False
        self._steps.append(step_power(self._step, self._rate))
        self._blocks.append(sum(self._steps) / len(self._steps))
        return True

    def reading(self) -> tuple[float | None, int]:
        """Returns the loudness in LUFS, if there was any sound, and the number of blocks that were averaged."""
        heard = gated_blocks(np.array(self._blocks))
        return (lufs(float(heard.mean())) if heard.size else None), heard.size


def check_loudness(loudness: float) -> None:
    if not MIN_LOUDNESS <= loudness <= MAX_LOUDNESS:
        raise InvalidRequest(
            f"loudness must be between {MIN_LOUDNESS:g} and {MAX_LOUDNESS:g} LUFS, not {loudness:g}.", param="loudness"
        )
