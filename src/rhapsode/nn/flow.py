"""Flow matching: from noise to data along predicted velocities, in a few guided Euler steps.

Times run from 1 (noise) to 0 (data), spaced by sway sampling: small steps first. Guidance is CFG-zero*: the
unconditional velocity is scaled to fit the conditional one, and the first steps, where it is unreliable, are skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from rhapsode.nn.kernels.flow import euler

SKIPPED = 0.04
"""The share of timesteps that are skipped at the start; at least one is."""

Velocity = Callable[[Tensor, int], Tensor]
"""Maps `x [B, ...]` and the index of the step to velocities `[2 * B, ...]`: conditional, then unconditional."""


class EulerStep(NamedTuple):
    """One step: where it starts, and how far it goes towards 0."""

    time: float
    length: float


def sway(timesteps: int, dtype: torch.dtype) -> Tensor:
    """Returns `timesteps + 1` times from 1 to 0."""
    even = torch.linspace(1, 0, timesteps + 1, dtype=dtype, device="cpu")
    return even + (torch.cos(math.pi / 2 * even) - 1 + even)


def euler_steps(timesteps: int, dtype: torch.dtype) -> list[EulerStep]:
    """Returns the steps that are not skipped, computed in `dtype`: the network was trained with this rounding."""
    times = sway(timesteps, dtype)
    skipped = max(1, int(len(times) * SKIPPED))
    time, steps = times[0], []
    for i in range(timesteps):
        length = time - times[i + 1]
        if i >= skipped:
            steps.append(EulerStep(float(time), float(length)))
        time = time - length
    return steps


class Schedules:
    """The steps for every number of timesteps up to `max_timesteps`, padded with steps of length 0."""

    def __init__(self, max_timesteps: int, dtype: torch.dtype) -> None:
        every = [euler_steps(timesteps, dtype) for timesteps in range(1, max_timesteps + 1)]
        self.step_counts = [len(steps) for steps in every]
        self.max_steps = max(self.step_counts)
        padded = [[*steps, *[EulerStep(0.0, 0.0)] * (self.max_steps - len(steps))] for steps in every]
        table = torch.tensor(padded, dtype=torch.float64, device="cpu").reshape(max_timesteps, self.max_steps, 2)
        self.times, self.lengths = table.unbind(-1)  # [max_timesteps, max_steps]: row i is for i + 1 timesteps


def solve(noise: Tensor, lengths: Tensor, guidance: Tensor, velocity: Velocity) -> Tensor:
    """Integrates from `noise [B, ...]` by steps of `lengths [B, steps]`; each row has its own `guidance [B]` scale."""
    x = noise
    for step in range(lengths.shape[1]):
        x = euler(x, velocity(x, step), lengths[:, step], guidance)
    return x
