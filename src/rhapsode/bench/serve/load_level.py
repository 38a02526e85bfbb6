"""Levels of load: how many requests are sent, and when."""

from __future__ import annotations

import random
from dataclasses import dataclass

LABELS = {
    "closed": "closed, c={:g}",
    "open": "open, {:g}/s",
    "first burst": "first burst of {:g}",
    "burst": "burst of {:g}",
}


@dataclass(frozen=True)
class LoadLevel:
    """One level of load.

    `closed`: so many clients, each sends its next request when the last one is complete. `open`: Poisson arrivals.
    `burst`: so many requests at the same moment, again and again; the `first burst` is reported apart, because
    a server that has just started answers it more slowly.
    """

    kind: str
    level: float
    """Concurrent requests; for `open`, requests per second."""
    pause_s: float = 0.0
    """Of `closed`: a client waits at random, up to so long, before each request. Without it requests arrive in step
    with the server's frames, because each one follows the last frame of another."""

    @property
    def label(self) -> str:
        return LABELS[self.kind].format(self.level)


def poisson(rate: float, count: int, seed: int) -> tuple[float, ...]:
    """Returns arrival times in seconds with exponential gaps. The same seed gives the same times."""
    rng = random.Random(f"poisson {rate} {seed}")
    now_s, arrivals = 0.0, []
    for _ in range(count):
        now_s += rng.expovariate(rate)
        arrivals.append(now_s)
    return tuple(arrivals)
