"""When requests are sent: by listeners who wait for each other, by strangers, or all at once."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Load:
    """One level of load."""

    kind: str
    """`closed`, `open` or `burst`."""
    level: float
    """Listeners at once; in an open loop, requests per second."""

    @property
    def label(self) -> str:
        unit = {"closed": "closed, c={:g}", "open": "open, {:g}/s", "burst": "burst of {:g}"}[self.kind]
        return unit.format(self.level)


def poisson(rate: float, count: int, seed: int) -> tuple[float, ...]:
    """Arrival times in seconds, independent of each other and the same for the same seed."""
    rng = random.Random(f"poisson {rate} {seed}")
    now_s, arrivals = 0.0, []
    for _ in range(count):
        now_s += rng.expovariate(rate)
        arrivals.append(now_s)
    return tuple(arrivals)
