"""Simulates fleets of several sizes, or searches for the smallest that meets the goal, and composes the report."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from rhapsode.bench.capacity.curve import ReplicaCurve
from rhapsode.bench.capacity.scaler import ScalingPlan
from rhapsode.bench.capacity.simulate import SimulationResult, simulate
from rhapsode.bench.capacity.traffic import Traffic
from rhapsode.bench.report import Run, compose
from rhapsode.bench.stats import rounded
from rhapsode.errors import InvalidRequest

MOST_REPLICAS = 10_000
SAMPLES = 1001
"""Quantiles of first audio that a report keeps."""


@dataclass(frozen=True)
class Goal:
    """The quality of service that a fleet must reach."""

    first_audio_s: float
    """p99, from arrival."""
    refused: float = 0.001
    """The share of requests that may be refused."""
    with_gap: float = 0.001

    def is_met(self, result: SimulationResult) -> bool:
        if not result.served or result.refused > self.refused * result.requests:
            return False
        late_s = float(np.quantile(result.first_s, 0.99))
        return late_s <= self.first_audio_s and result.with_gap <= self.with_gap * result.served


@dataclass(frozen=True)
class CapacityPlan:
    """One question to answer: a curve, the traffic, and the numbers of replicas."""

    curve: ReplicaCurve
    traffic: Traffic
    source: str
    """Where the curve comes from."""
    scaling: ScalingPlan
    sizes: tuple[int, ...] = ()
    """Numbers of replicas to simulate; empty: search for the smallest that meets the goal."""
    goal: Goal | None = None
    max_queue: int = 128
    seed: int = 0


def answer(plan: CapacityPlan) -> dict[str, Any]:
    """Returns the report."""

    def run(size: int) -> SimulationResult:
        scaling = replace(plan.scaling, most=size, least=min(size, plan.scaling.least or size))
        return simulate(plan.curve, plan.traffic, scaling, plan.max_queue, plan.seed)

    results = {size: run(size) for size in plan.sizes} if plan.sizes else search(run, plan)
    met = [size for size, result in results.items() if plan.goal is not None and plan.goal.is_met(result)]
    config = {
        "subject": plan.source,
        "requests": len(plan.traffic),
        "duration_s": rounded(plan.traffic.duration_s),
        "listeners": rounded(plan.traffic.listeners),
        "mean_audio_s": rounded(plan.traffic.mean_audio_s),
        "places": plan.curve.places,
        "replica_audio_s_per_s": rounded(plan.curve.audio_s_per_s(plan.traffic.mean_audio_s)),
        "max_queue": plan.max_queue,
        "scaling": asdict(plan.scaling),
        "goal": asdict(plan.goal) if plan.goal else None,
        "fewest_replicas": min(met) if met else None,
    }
    return compose("capacity", config, plan.seed, [_run(size, results[size], plan) for size in sorted(results)])


def search(run: Callable[[int], SimulationResult], plan: CapacityPlan) -> dict[int, SimulationResult]:
    """Simulates growing fleets until one meets the goal, then halves the distance to the largest that does not."""
    goal = plan.goal
    assert goal is not None
    alone_s = float(plan.curve.first_s[1, 99])
    if alone_s > goal.first_audio_s:
        raise InvalidRequest(
            f"no number of replicas is enough: a single listener's first audio takes {alone_s * 1e3:.0f} ms (p99)."
        )
    one = plan.curve.audio_s_per_s(plan.traffic.mean_audio_s)
    below, size = 0, max(1, math.ceil(plan.traffic.listeners / one))
    results: dict[int, SimulationResult] = {}
    while size <= MOST_REPLICAS:
        results[size] = run(size)
        if goal.is_met(results[size]):
            break
        below, size = size, max(size + 1, math.ceil(size * 1.25))
    else:
        raise InvalidRequest(f"{MOST_REPLICAS:,} replicas are not enough for this traffic.")
    while size - below > 1:
        middle = (below + size) // 2
        results[middle] = run(middle)
        below, size = (below, middle) if goal.is_met(results[middle]) else (middle, size)
    return results


def _run(size: int, result: SimulationResult, plan: CapacityPlan) -> Run:
    quantiles = np.linspace(0, 1, min(SAMPLES, result.served or 1))
    samples = {}
    if result.served:
        samples = {
            "first_audio_ms": (np.quantile(result.first_s, quantiles) * 1e3).tolist(),
            "queued_ms": (np.quantile(result.queued_s, quantiles) * 1e3).tolist(),
        }
    facts: dict[str, Any] = {
        "replicas": size,
        "requests": result.requests,
        "refused": result.refused,
        "with_gap": result.with_gap,
        "queued": int((result.queued_s > 0).sum()),
        "busy": rounded(result.busy),
        "replica_hours": rounded(result.replica_s / 3600),
        "meets_goal": plan.goal.is_met(result) if plan.goal else None,
        "timeline": [[rounded(at_s), replicas, load] for at_s, replicas, load in result.timeline],
    }
    return Run(f"{size} replica{'s' if size > 1 else ''}", samples, facts)
