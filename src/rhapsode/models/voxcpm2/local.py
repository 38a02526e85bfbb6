"""The two local transformers: one hears a patch, the other predicts where a noisy patch should move."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.voxcpm2.config import VoxConfig
from rhapsode.nn.decoder import normed_linear
from rhapsode.nn.derived import Derived
from rhapsode.nn.flow import Schedules, solve
from rhapsode.nn.kernels.linear import linear
from rhapsode.nn.local import LocalStack

TOLD, TIME = 2, 1
"""Tokens before those of the last patch: what the language models say, and the time."""


class LocalEncoder(nn.Module):
    """A patch to one vector: that of a token put before it."""

    def __init__(self, config: VoxConfig) -> None:
        super().__init__()
        layers = config.encoder.of(config.lm).layers()
        self.special_token = nn.Parameter(torch.zeros(1, 1, 1, layers.hidden))
        self.in_proj = nn.Linear(config.patch.feat_dim, layers.hidden)
        self.encoder = LocalStack(layers, 1 + config.patch.patch_size)

    def forward(self, patches: Tensor) -> Tensor:
        """`[N, patch, feat]` to `[N, hidden]`."""
        x = linear(patches.to(self.in_proj.weight.dtype), self.in_proj)
        first = self.special_token[0].expand(len(x), -1, -1)
        return self.encoder.norm(self.encoder.see(torch.cat((first, x), dim=1))[:, 0].contiguous())


class TimeMLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(width, width)
        self.linear_2 = nn.Linear(width, width)

    def forward(self, times: Tensor) -> Tensor:
        """`[...]` to `[..., width]`."""
        return self.linear_2(F.silu(self.linear_1(waves(times, self.linear_1.in_features))))


def waves(times: Tensor, width: int) -> Tensor:
    """Sines and cosines of a time, in its own type: rounding is part of what the network has learnt."""
    half = width // 2
    ranks = torch.arange(half, dtype=times.dtype, device=times.device)
    angles = 1000 * times[..., None] * torch.exp(ranks * -(math.log(10_000) / (half - 1)))
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


class LocalDiT(Derived):
    """Velocities of a noisy patch, and the way from noise to a patch along them.

    The times of all moves are known, so their tokens are made once.
    """

    time_tokens: Tensor  # [most steps, most moves, hidden]
    lengths: Tensor  # [most steps, most moves] float32

    def __init__(self, config: VoxConfig, dtype: torch.dtype, max_timesteps: int) -> None:
        super().__init__()
        layers, feat = config.dit.of(config.lm).layers(), config.patch.feat_dim
        self._mean_mode = config.dit.dit_mean_mode
        self.schedules = Schedules(max_timesteps, dtype)
        self.in_proj = nn.Linear(feat, layers.hidden)
        self.cond_proj = nn.Linear(feat, layers.hidden)
        self.out_proj = nn.Linear(layers.hidden, feat)
        self.time_mlp = TimeMLP(layers.hidden)
        self.delta_time_mlp = TimeMLP(layers.hidden)
        self.decoder = LocalStack(layers, TOLD + TIME + 2 * config.patch.patch_size)
        self.register_buffer("time_tokens", None, persistent=False)
        self.register_buffer("lengths", None, persistent=False)

    def derive(self) -> None:
        weight = self.in_proj.weight
        times, lengths = (table.to(weight.device) for table in (self.schedules.times, self.schedules.lengths))
        deltas = lengths if self._mean_mode else torch.zeros_like(lengths)
        self.time_tokens = self.time_mlp(times.to(weight.dtype)) + self.delta_time_mlp(deltas.to(weight.dtype))
        self.lengths = lengths.to(torch.promote_types(weight.dtype, torch.float32))

    def forward(
        self, noise: Tensor, told: Tensor, last: Tensor, schedule: Tensor, strength: Tensor, moves: int
    ) -> Tensor:
        """From `noise [B, patch, feat]` to the next patch, after the `last` one.

        `told [B, 2, hidden]` is what the language models say; guidance compares with saying nothing, as a second half
        of the batch. Each row has its own `schedule [B]` and guidance `strength [B]`; no schedule has more `moves`.
        """
        batch, patch, dtype = len(noise), noise.shape[1], self.in_proj.weight.dtype
        # The tokens of all moves but for the patch's own: a move gives up its own.
        tokens = noise.new_zeros(moves, 2, batch, self.decoder.most, self.in_proj.out_features, dtype=dtype)
        tokens[:, 0, :, :TOLD] = told
        tokens[:, :, :, TOLD] = self.time_tokens[schedule, :moves].transpose(0, 1)[:, None]
        tokens[:, :, :, TOLD + TIME : -patch] = linear(last.to(dtype), self.cond_proj)

        def velocity(x: Tensor, move: int) -> Tensor:
            tokens[move, :, :, -patch:] = linear(x.to(dtype), self.in_proj)
            hidden = self.decoder.see(tokens[move].flatten(0, 1))[:, -patch:].contiguous()
            return normed_linear(hidden, self.decoder.norm, self.out_proj.weight, self.out_proj.bias)

        return solve(noise, self.lengths[schedule, :moves], strength, velocity)
