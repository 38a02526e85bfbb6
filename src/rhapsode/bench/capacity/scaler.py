"""The number of replicas in a simulation: fixed, or by load as the cluster's policy decides."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from rhapsode.cluster.scaling import replicas_for


@dataclass(frozen=True)
class ScalingPlan:
    """How many replicas there may be, and how fast they are added and removed."""

    least: int
    most: int
    target: float = 0.7
    """The share of a replica's capacity that should be in use."""
    window_s: float = 5.0
    up_delay_s: float = 2.0
    down_delay_s: float = 60.0
    start_s: float = 60.0
    """Seconds from the decision until a new replica is ready."""

    @property
    def is_fixed(self) -> bool:
        return self.least == self.most


class Scaler:
    """Decides the number of replicas like the cluster: by the mean load of a window, after a delay."""

    def __init__(self, plan: ScalingPlan, capacity: int) -> None:
        self._plan = plan
        self._capacity = capacity
        self._loads: deque[tuple[float, int]] = deque()
        self._since_s: tuple[int, float] | None = None

    def decide(self, now_s: float, load: int, replicas: int) -> int:
        """Returns how many replicas there should be. `replicas` counts those that are starting."""
        plan = self._plan
        self._loads.append((now_s, load))
        while self._loads[0][0] < now_s - plan.window_s:
            self._loads.popleft()
        mean = sum(load for _, load in self._loads) / len(self._loads)
        wanted = math.ceil(replicas_for(mean, [float(self._capacity)], plan.target))
        wanted = min(max(wanted, plan.least), plan.most)
        direction = (wanted > replicas) - (wanted < replicas)
        if self._since_s is None or self._since_s[0] != direction:
            self._since_s = (direction, now_s)
        delay_s = plan.up_delay_s if direction > 0 else plan.down_delay_s
        return wanted if now_s - self._since_s[1] >= delay_s else replicas
