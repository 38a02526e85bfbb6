"""Plays speech at the speed that is asked for, part by part; pauses keep their length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rhapsode.audio.tempo import MAX_SPEED, MIN_SPEED, Tempo

if TYPE_CHECKING:
    from rhapsode.types import Samples


class Pacer:
    """Changes the speed of samples by `speed` times their own pace. How they are cut changes nothing."""

    def __init__(self, speed: float, sample_rate: int, channels: int = 1) -> None:
        self._speed = speed
        self._sample_rate = sample_rate
        self._channels = channels
        self._pace = 1.0
        self._tempo = Tempo(speed, sample_rate, channels)

    def write(self, samples: Samples, pace: float = 1.0, is_pause: bool = False) -> Samples:
        """Returns what is ready. A pause is passed on as it is, after all that comes before it."""
        if is_pause:
            return np.concatenate((self._restarted(self._pace), samples), axis=1)
        if pace != self._pace:
            rest = self._restarted(pace)
            return np.concatenate((rest, self._tempo.write(samples)), axis=1)
        return self._tempo.write(samples)

    def close(self) -> Samples:
        """Returns the rest."""
        return self._tempo.close()

    def _restarted(self, pace: float) -> Samples:
        """Ends what is in progress, and goes on at another pace."""
        rest = self._tempo.close()
        self._pace = pace
        self._tempo = Tempo(min(MAX_SPEED, max(MIN_SPEED, self._speed * pace)), self._sample_rate, self._channels)
        return rest
