"""Percentiles, summaries, and ratios with confidence intervals. Needs only the standard library."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

DIGITS = 6
"""Significant digits kept in a report: more than the clocks resolve."""
RESAMPLES = 2000


@dataclass(frozen=True)
class Summary:
    """Statistics of a list of measurements."""

    n: int
    mean: float
    min: float
    p50: float
    p95: float
    p99: float
    max: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class Ratio:
    """B over A, with its 95% bootstrap interval from `low` to `high`."""

    value: float
    low: float
    high: float

    @property
    def certain(self) -> bool:
        """Whether the interval does not include 1."""
        return self.low > 1 or self.high < 1


def percentile(values: Sequence[float], q: float) -> float:
    """Returns the `q`-th percentile, 0 to 100, interpolated between neighbours as numpy does by default."""
    if not values:
        raise ValueError("a percentile needs at least one value")
    ordered = sorted(values)
    at = (len(ordered) - 1) * q / 100
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def summarize(values: Sequence[float]) -> Summary:
    return Summary(
        n=len(values),
        mean=rounded(statistics.fmean(values)),
        min=rounded(min(values)),
        p50=rounded(percentile(values, 50)),
        p95=rounded(percentile(values, 95)),
        p99=rounded(percentile(values, 99)),
        max=rounded(max(values)),
    )


def ratio(first: Sequence[float], second: Sequence[float], *, mean: bool = False, seed: int = 0) -> Ratio | None:
    """Returns the median (or mean) of `second` over that of `first`, or None if that of `first` is zero."""
    middle = statistics.fmean if mean else statistics.median
    base = middle(first)
    if base == 0:
        return None
    rng = random.Random(seed)
    drawn = []
    for _ in range(RESAMPLES if max(len(first), len(second)) <= 200 else RESAMPLES // 10):
        below = middle(rng.choices(first, k=len(first)))
        if below:
            drawn.append(middle(rng.choices(second, k=len(second))) / below)
    value = middle(second) / base
    return Ratio(rounded(value), rounded(percentile(drawn, 2.5)), rounded(percentile(drawn, 97.5)))


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
