"""Simulates playback: audio plays from its first samples on, and an underrun is when none is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import numpy as np

from rhapsode.bench.serve.pcm_reader import Pcm

AUDIBLE = 0.01
"""Relative to full scale: -40 dB. Below it a listener hears nothing."""


@dataclass(frozen=True)
class Arrival:
    """Samples that arrived at one moment."""

    at_s: float
    duration_s: float


@dataclass(frozen=True)
class PlaybackResult:
    """What a listener heard of one response."""

    underruns: int
    stalled_s: float
    """The total silence of all underruns."""
    gaps_s: tuple[float, ...]
    """Times between one arrival and the next."""
    least_left_s: float
    """The least audio that was left to play when more arrived; below 0, the longest underrun."""
    audio_s: float
    first_chunk_s: float
    """Seconds of audio in the first arrival."""
    _starts: tuple[tuple[float, float], ...]

    def played_at_s(self, position_s: float) -> float:
        """Returns the moment at which the sample at this position of the audio is played."""
        offset_s, start_s = next((o, s) for o, s in reversed(self._starts) if o <= position_s)
        return start_s + position_s - offset_s


def play(arrivals: Sequence[Arrival]) -> PlaybackResult:
    """Plays arrivals in order. A chunk that arrives after everything before it has been played is an underrun."""
    played_until_s, audio_s, stalled_s = 0.0, 0.0, 0.0
    underruns, least_left_s = 0, inf
    starts: list[tuple[float, float]] = []
    for i, arrival in enumerate(arrivals):
        left_s = played_until_s - arrival.at_s
        if i:
            least_left_s = min(least_left_s, left_s)
        if i and left_s < 0:
            underruns += 1
            stalled_s -= left_s
        starts.append((audio_s, max(played_until_s, arrival.at_s)))
        played_until_s = starts[-1][1] + arrival.duration_s
        audio_s += arrival.duration_s
    gaps_s = tuple(later.at_s - earlier.at_s for earlier, later in pairwise(arrivals))
    return PlaybackResult(underruns, stalled_s, gaps_s, least_left_s, audio_s, arrivals[0].duration_s, tuple(starts))


def first_audible(samples: Pcm) -> int | None:
    """Returns the index of the first sample that is loud enough to hear, or None."""
    loud = np.flatnonzero(np.abs(samples.astype(np.int32)) > AUDIBLE * 32768)
    return int(loud[0]) if len(loud) else None
