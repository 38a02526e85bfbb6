"""Levels of load: how many requests are sent, and when."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Number = TypeVar("Number", int, float)

LABELS = {
    "closed": "closed, c={:g}",
    "open": "open, {:g}/s",
    "first burst": "first burst of {:g}",
    "burst": "burst of {:g}",
}


@dataclass(frozen=True)
class LoadLevel:
    """One level of load.

    `closed`: `level` clients, each of which sends its next request when its last one is complete. `open`: Poisson
    arrivals. `burst`: `level` requests at the same moment, again and again; the `first burst` is reported separately,
    because a server that has just started answers it more slowly.
    """

    kind: str
    level: float
    """Concurrent requests; for `open`, requests per second."""
    pause_s: float = 0.0
    """For `closed`: a client waits for a random time, up to this one, before each request. Without pauses, requests
    arrive in step with the server's frames, because each one follows the last frame of another."""
    retries: int = 0
    """How often a refused request is sent again, each time after the server's `Retry-After`."""

    @property
    def label(self) -> str:
        return LABELS[self.kind].format(self.level)


@dataclass(frozen=True)
class Share:
    """The part of a load that one of several client processes applies."""

    index: int = 0
    of: int = 1
    begins_s: float | None = None
    """When all processes begin, by `time.perf_counter`, which is one clock for all processes of a machine."""

    def part(self, numbers: Sequence[Number]) -> Sequence[Number]:
        return numbers[self.index :: self.of]


def poisson(rate: float, count: int, seed: int) -> tuple[float, ...]:
    """Returns arrival times in seconds with exponential gaps. The same seed gives the same times."""
    rng = random.Random(f"poisson {rate} {seed}")
    now_s, arrivals = 0.0, []
    for _ in range(count):
        now_s += rng.expovariate(rate)
        arrivals.append(now_s)
    return tuple(arrivals)
