"""How many replicas a model needs, by its slots in use and its queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.serve.config import AutoscalingContext


class LoadPolicy:
    """Keeps the load of all replicas at a share of their capacity.

    Ray's own policy counts requests that pass through Ray. Our requests do not, and an open connection is not load. Ray
    applies its limits and delays to the result of this policy, and starts the first replica for a pending call.
    """

    def __init__(self, target: float) -> None:
        self._target = target

    def __call__(self, context: AutoscalingContext) -> tuple[float, dict[str, Any]]:
        metrics: Mapping[str, Mapping[Any, float]] = context.aggregated_metrics or {}
        loads, capacities = metrics.get("load", {}), metrics.get("capacity", {})
        return replicas_for(
            sum(loads.values()) + context.total_queued_requests, list(capacities.values()), self._target
        ), {}


def replicas_for(load: float, capacities: list[float], target: float) -> float:
    """Returns how many replicas keep this load at the target share of their capacity."""
    capacity = sum(capacities) / len(capacities) if capacities else 1.0
    return load / (target * capacity)
