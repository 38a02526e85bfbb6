"""Traffic: when requests arrive, how long their speech is, and which voice or session they belong to."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rhapsode.errors import InvalidRequest

Floats = NDArray[np.float64]
SPREAD = 0.6
"""Standard deviation of the logarithm of speech lengths: most are short, some are long."""
QUIET = 0.2
"""The lowest traffic of a day, as a share of the highest."""


@dataclass(frozen=True)
class Traffic:
    """Requests in the order of their arrival."""

    at_s: Floats
    audio_s: Floats
    keys: Sequence[str | None]
    """The voice or session by which a request prefers a replica; None if every replica is equally good."""

    def __len__(self) -> int:
        return len(self.at_s)

    @property
    def duration_s(self) -> float:
        return float(self.at_s[-1])

    @property
    def mean_audio_s(self) -> float:
        return float(self.audio_s.mean())

    @property
    def listeners(self) -> float:
        """The mean number of concurrent listeners: seconds of audio per second."""
        return float(self.audio_s.sum()) / self.duration_s


@dataclass(frozen=True)
class TrafficPlan:
    """Traffic to generate, given by the number of concurrent listeners and the mean length of an utterance."""

    listeners: float
    """Concurrent listeners on average; with `daily`, at the busiest moment."""
    mean_audio_s: float
    duration_s: float
    daily: bool = False
    """The duration is a day with a quiet and a busy half, however long it is; otherwise traffic is constant."""
    voices: int = 0
    """Cloned voices, of which few are used often; requests prefer the replica that has their voice in its cache."""

    def generate(self, seed: int) -> Traffic:
        """Returns Poisson arrivals. The same seed gives the same traffic."""
        rng = np.random.default_rng(seed)
        count = rng.poisson(self.listeners / self.mean_audio_s * self.duration_s)
        if count < 2:
            raise InvalidRequest("there are too few requests: give more --listeners, or more --minutes.")
        at_s = np.sort(rng.uniform(0, self.duration_s, count))
        if self.daily:
            share = QUIET + (1 - QUIET) * (1 - np.cos(2 * np.pi * at_s / self.duration_s)) / 2
            at_s = at_s[rng.uniform(size=count) < share]
        lengths = rng.lognormal(np.log(self.mean_audio_s) - SPREAD**2 / 2, SPREAD, len(at_s))
        return Traffic(at_s, lengths, self._keys(len(at_s), rng))

    def _keys(self, count: int, rng: np.random.Generator) -> list[str | None]:
        if not self.voices:
            return [None] * count
        weights = 1 / np.arange(1, self.voices + 1)
        return [f"voice-{i}" for i in rng.choice(self.voices, count, p=weights / weights.sum())]


def read_trace(path: Path) -> Traffic:
    """Reads a CSV file with the columns `at_s` and `audio_s`, and `key` where requests prefer a replica."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = sorted((float(row["at_s"]), float(row["audio_s"]), row.get("key")) for row in csv.DictReader(file))
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror or error}.") from None
    except (KeyError, TypeError, ValueError, UnicodeDecodeError):
        raise InvalidRequest(f"{path} must be CSV with a line of names, and the columns at_s and audio_s.") from None
    good = all(np.isfinite((at_s, audio_s)).all() and at_s >= 0 and audio_s > 0 for at_s, audio_s, _ in rows)
    if len(rows) < 2 or not good or rows[0][0] == rows[-1][0]:
        raise InvalidRequest(f"{path} needs two or more requests at times of 0 s or later, each of more than 0 s.")
    start_s = rows[0][0]
    arrivals = np.array([at_s - start_s for at_s, _, _ in rows])
    return Traffic(arrivals, np.array([audio_s for _, audio_s, _ in rows]), [key or None for _, _, key in rows])
