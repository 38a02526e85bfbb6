"""Flow matching: from noise to data along the velocities a network predicts, in a few guided Euler steps.

Times run from 1 (noise) to 0 (data), bent by sway: small steps first. Guidance is CFG-zero*: the unguided velocity is
first scaled to fit the guided one, and the first steps, where it is unreliable, do not move at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from rhapsode.nn.kernels.flow import euler

STILL = 0.04
"""The share of the times that do not move; one at least."""

Velocity = Callable[[Tensor, int], Tensor]
"""`x [B, ...]` and the number of the move, to velocities `[2 * B, ...]`: of who is told something, and who is not."""


class Move(NamedTuple):
    """One Euler step that moves: from this time, so far towards 0."""

    time: float
    length: float


def sway(steps: int, dtype: torch.dtype) -> Tensor:
    """`steps + 1` times from 1 to 0."""
    even = torch.linspace(1, 0, steps + 1, dtype=dtype, device="cpu")
    return even + (torch.cos(math.pi / 2 * even) - 1 + even)


def moves(steps: int, dtype: torch.dtype) -> list[Move]:
    """The moves of so many Euler steps, in the arithmetic of `dtype`: rounding is part of what a network has learnt."""
    times = sway(steps, dtype)
    still = max(1, int(len(times) * STILL))
    time, found = times[0], []
    for step in range(steps):
        length = time - times[step + 1]
        if step >= still:
            found.append(Move(float(time), float(length)))
        time = time - length
    return found


class Schedules:
    """The moves for every number of steps up to `most`; those with fewer end with moves of length 0."""

    def __init__(self, most: int, dtype: torch.dtype) -> None:
        every = [moves(steps, dtype) for steps in range(1, most + 1)]
        self.most_moves = max(len(found) for found in every)
        padded = [[*found, *[Move(0.0, 0.0)] * (self.most_moves - len(found))] for found in every]
        table = torch.tensor(padded, dtype=torch.float64, device="cpu").reshape(most, self.most_moves, 2)
        self.times, self.lengths = table.unbind(-1)  # [most, most_moves]: row i is for i + 1 steps
        self.counts = [len(found) for found in every]


def solve(noise: Tensor, lengths: Tensor, strength: Tensor, velocity: Velocity) -> Tensor:
    """`noise [B, ...]` moved by `lengths [B, moves]`, each row guided with its own `strength [B]`."""
    x = noise
    for move in range(lengths.shape[1]):
        x = euler(x, velocity(x, move), lengths[:, move], strength)
    return x
