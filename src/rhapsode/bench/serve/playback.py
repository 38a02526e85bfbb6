"""A listener's clock: plays from the first samples on, and notices when nothing is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rhapsode.bench.serve.wire import Pcm

AUDIBLE = 0.01
"""Of full scale: -40 dB. Below it a listener hears nothing."""


@dataclass(frozen=True)
class Arrival:
    """Samples, and the moment they were there."""

    at_s: float
    duration_s: float


@dataclass(frozen=True)
class Playback:
    """How it sounded."""

    underruns: int
    stalled_s: float
    """Silence in all underruns together."""
    gaps_s: tuple[float, ...]
    """Between one arrival and the next."""
    audio_s: float
    _starts: tuple[tuple[float, float], ...]

    def heard_at_s(self, position_s: float) -> float:
        """The moment the sample at this position of the audio leaves the loudspeaker."""
        offset_s, start_s = next((o, s) for o, s in reversed(self._starts) if o <= position_s)
        return start_s + position_s - offset_s


def play(arrivals: Sequence[Arrival]) -> Playback:
    """An underrun is a chunk that arrives after all before it has been played."""
    dry_at_s, audio_s, stalled_s = 0.0, 0.0, 0.0
    underruns = 0
    starts: list[tuple[float, float]] = []
    for i, arrival in enumerate(arrivals):
        if i and arrival.at_s > dry_at_s:
            underruns += 1
            stalled_s += arrival.at_s - dry_at_s
        starts.append((audio_s, max(dry_at_s, arrival.at_s)))
        dry_at_s = starts[-1][1] + arrival.duration_s
        audio_s += arrival.duration_s
    gaps_s = tuple(later.at_s - earlier.at_s for earlier, later in pairwise(arrivals))
    return Playback(underruns, stalled_s, gaps_s, audio_s, tuple(starts))


def first_audible(samples: Pcm) -> int | None:
    """The index of the first sample a listener can hear."""
    loud = np.flatnonzero(np.abs(samples.astype(np.int32)) > AUDIBLE * 32768)
    return int(loud[0]) if len(loud) else None
