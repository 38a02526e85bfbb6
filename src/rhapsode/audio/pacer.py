"""Changes the speed of speech, section by section; pauses keep their length."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rhapsode.audio.tempo import MAX_SPEED, MIN_SPEED, Tempo

if TYPE_CHECKING:
    from rhapsode.types import Samples


class _PacedStretch(NamedTuple):
    """A stretch of constant speed: its first sample before and after the change of speed, and the speed."""

    sample: int
    heard: int
    speed: float


class Pacer:
    """Plays samples at `speed` times their own pace. The result does not depend on how they are cut."""

    def __init__(self, speed: float, sample_rate: int, channels: int = 1) -> None:
        self._speed = speed
        self._sample_rate = sample_rate
        self._channels = channels
        self._pace = 1.0
        self._samples = 0
        self._stretches = [_PacedStretch(0, 0, speed)]
        self._tempo = Tempo(speed, sample_rate, channels)

    def write(self, samples: Samples, pace: float = 1.0, is_pause: bool = False) -> Samples:
        """Returns what is ready. A pause is passed on as it is, after all that comes before it."""
        if is_pause:
            rest = self.flush()
            self._stretch(1.0)
            self._samples += samples.shape[1]
            self._stretch(self._tempo_speed)
            return np.concatenate((rest, samples), axis=1)
        if pace != self._pace and samples.shape[1]:
            rest = self._restarted(pace)
            self._stretch(self._tempo_speed)
            self._samples += samples.shape[1]
            return np.concatenate((rest, self._tempo.write(samples)), axis=1)
        self._samples += samples.shape[1]
        return self._tempo.write(samples)

    def flush(self) -> Samples:
        """Returns the rest of the samples written so far; later samples are processed independently."""
        return self._restarted(self._pace)

    def heard_s(self, seconds: float) -> float:
        """Converts a time in the samples written so far to the time at which it is heard."""
        sample = seconds * self._sample_rate
        index = bisect_right(self._stretches, sample, key=lambda stretch: stretch.sample) - 1
        start, heard, speed = self._stretches[max(0, index)]
        return (heard + (sample - start) / speed) / self._sample_rate

    def close(self) -> Samples:
        """Returns the rest."""
        return self._tempo.close()

    def _restarted(self, pace: float) -> Samples:
        """Closes the current filter, starts one with another pace, and returns the rest."""
        rest = self._tempo.close()
        self._pace = pace
        self._tempo = Tempo(self._tempo_speed, self._sample_rate, self._channels)
        return rest

    @property
    def _tempo_speed(self) -> float:
        return min(MAX_SPEED, max(MIN_SPEED, self._speed * self._pace))

    def _stretch(self, speed: float) -> None:
        """Begins a stretch with this speed after the samples so far."""
        start, heard, before = self._stretches[-1]
        self._stretches.append(_PacedStretch(self._samples, heard + round((self._samples - start) / before), speed))
