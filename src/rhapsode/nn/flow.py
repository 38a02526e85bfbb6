"""Flow matching: from noise to data along predicted velocities, in a few guided Euler steps.

A schedule is a list of times, from that of noise to that of data. Some networks count from 1 down to 0, others from 0
up to 1: the sign of a step's change gives the direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from rhapsode.device.slots import Rows
from rhapsode.nn.kernels.flow import Guidance, euler
from rhapsode.nn.philox import normal

SKIPPED = 0.04
"""The share of timesteps that CFG-zero* skips at the start, where velocities are unreliable. It skips at least one."""

Velocity = Callable[[Tensor, int], Tensor]
"""Maps `x [B, ...]` and the index of the step to velocities `[2 * B, ...]`: conditional, then unconditional."""


# --- times ---


def even_times(timesteps: int, dtype: torch.dtype) -> Tensor:
    """Returns `timesteps + 1` times from 0 to 1, evenly spaced."""
    return torch.linspace(0, 1, timesteps + 1, dtype=dtype, device="cpu")


def cosine_times(timesteps: int, dtype: torch.dtype) -> Tensor:
    """Returns `timesteps + 1` times from 0 to 1: small steps first."""
    return 1 - torch.cos(math.pi / 2 * even_times(timesteps, dtype))


def sway_times(timesteps: int, dtype: torch.dtype) -> Tensor:
    """Returns `timesteps + 1` times from 1 to 0, by sway sampling: small steps first."""
    even = torch.linspace(1, 0, timesteps + 1, dtype=dtype, device="cpu")
    return even + (torch.cos(math.pi / 2 * even) - 1 + even)


def zero_star_skip(timesteps: int) -> int:
    """Returns how many steps at the start CFG-zero* skips."""
    return max(1, int((timesteps + 1) * SKIPPED))


# --- steps ---


class EulerStep(NamedTuple):
    """One step: the time at which it starts, and how far time moves."""

    time: float
    change: float


def euler_steps(times: Tensor, skip: int = 0) -> list[EulerStep]:
    """Returns the steps between these times, without the first `skip`.

    Each time is a sum of changes, rounded to the dtype of `times`: the network was trained with this rounding.
    """
    time, steps = times[0], []
    for following in times[1:]:
        change = following - time
        steps.append(EulerStep(float(time), float(change)))
        time = time + change
    return steps[skip:]


class Schedules:
    """Several lists of steps as one table, padded with steps that change nothing."""

    def __init__(self, every: Sequence[Sequence[EulerStep]]) -> None:
        self.step_counts = [len(steps) for steps in every]
        self.max_steps = max(self.step_counts)
        padded = [[*steps, *[EulerStep(0.0, 0.0)] * (self.max_steps - len(steps))] for steps in every]
        table = torch.tensor(padded, dtype=torch.float64, device="cpu").reshape(len(every), self.max_steps, 2)
        self.times, self.changes = table.unbind(-1)  # [schedules, max_steps]


# --- integration ---


def initial_noise(rows: Rows, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Returns the random noise that the flow turns into each row's next frame, `[B, *shape]`.

    It depends on the request's seed and the number of the frame alone, and is multiplied by the request's temperature.
    """
    values = normal(rows.seeds, rows.steps, 0, math.prod(shape))
    values = values * rows.temperature[:, None]
    return values.view(-1, *shape).to(dtype)


def solve(
    noise: Tensor, changes: Tensor, scale: Tensor, velocity: Velocity, guidance: Guidance = "zero-star"
) -> Tensor:
    """Integrates from `noise [B, ...]` by steps of `changes [B, steps]`; each row has its own guidance `scale [B]`."""
    x = noise
    for step in range(changes.shape[1]):
        x = euler(x, velocity(x, step), changes[:, step], scale, guidance)
    return x


def sinusoids(times: Tensor, width: int, last_rank: int) -> tuple[Tensor, Tensor]:
    """Returns sines and cosines of times, each `[..., width / 2]`, in the dtype of `times`.

    Frequencies fall from 1 to 1/10000 at rank `last_rank`.
    """
    ranks = torch.arange(width // 2, dtype=times.dtype, device=times.device)
    angles = times[..., None] * torch.exp(ranks * -(math.log(10_000) / last_rank))
    return angles.sin(), angles.cos()
