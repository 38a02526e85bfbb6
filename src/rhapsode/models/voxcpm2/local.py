"""The two local transformers: one encodes a patch, the other predicts the velocity of a noisy patch."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.device.sections import section
from rhapsode.models.voxcpm2.config import VoxConfig
from rhapsode.nn.derived import Derived
from rhapsode.nn.flow import Schedules, solve
from rhapsode.nn.linear import linear, normed_linear, weight_of
from rhapsode.nn.local import LocalStack

CONDITION, TIME = 2, 1
"""Tokens before those of the previous patch: the language models' outputs, and the time."""


class LocalEncoder(nn.Module):
    """Encodes a patch as one vector: the output of a special token before it."""

    def __init__(self, config: VoxConfig) -> None:
        super().__init__()
        layers = config.encoder.of(config.lm).layers()
        self.special_token = nn.Parameter(torch.zeros(1, 1, 1, layers.hidden))
        self.in_proj = nn.Linear(config.patch.feat_dim, layers.hidden)
        self.encoder = LocalStack(layers, 1 + config.patch.patch_size)

    @section("depth")
    def forward(self, patches: Tensor) -> Tensor:
        """Encodes `patches [N, patch, feat]` as `[N, hidden]`."""
        x = linear(patches.to(self.in_proj.weight.dtype), self.in_proj)
        first = self.special_token[0].expand(len(x), -1, -1)
        return self.encoder.norm(self.encoder.hidden_states(torch.cat((first, x), dim=1))[:, 0].contiguous())


class TimeMLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(width, width)
        self.linear_2 = nn.Linear(width, width)

    def forward(self, times: Tensor) -> Tensor:
        """Embeds `times [...]` as `[..., width]`."""
        return self.linear_2(F.silu(self.linear_1(sinusoids(times, self.linear_1.in_features))))


def sinusoids(times: Tensor, width: int) -> Tensor:
    """Returns sines and cosines of times, in their own dtype: the network was trained with this rounding."""
    half = width // 2
    ranks = torch.arange(half, dtype=times.dtype, device=times.device)
    angles = 1000 * times[..., None] * torch.exp(ranks * -(math.log(10_000) / (half - 1)))
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


class LocalDiT(Derived):
    """Predicts the velocities of a noisy patch, and integrates them from noise to a patch.

    The times of all steps are known, so their tokens are computed once.
    """

    time_tokens: Tensor  # [max timesteps, max steps, hidden]
    lengths: Tensor  # [max timesteps, max steps] float32

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
        self.decoder = LocalStack(layers, CONDITION + TIME + 2 * config.patch.patch_size)
        self.register_buffer("time_tokens", None, persistent=False)
        self.register_buffer("lengths", None, persistent=False)

    def derive(self) -> None:
        weight = self.in_proj.weight
        times, lengths = (table.to(weight.device) for table in (self.schedules.times, self.schedules.lengths))
        deltas = lengths if self._mean_mode else torch.zeros_like(lengths)
        self.time_tokens = self.time_mlp(times.to(weight.dtype)) + self.delta_time_mlp(deltas.to(weight.dtype))
        self.lengths = lengths.to(torch.promote_types(weight.dtype, torch.float32))

    @section("depth")
    def forward(
        self, noise: Tensor, condition: Tensor, previous: Tensor, schedule: Tensor, guidance: Tensor, steps: int
    ) -> Tensor:
        """Integrates from `noise [B, patch, feat]` to the patch after the `previous` one.

        `condition [B, 2, hidden]` are the language models' outputs; the unconditional half of the batch has zeros
        instead. Each row has its own `schedule [B]` and `guidance [B]` scale; no schedule has more than `steps` steps.
        """
        batch, patch, dtype = len(noise), noise.shape[1], self.in_proj.weight.dtype
        # All tokens but the noisy patch's are known before the first step. Each step has a copy, which its layers
        # overwrite.
        tokens = noise.new_zeros(steps, 2, batch, self.decoder.max_tokens, self.in_proj.out_features, dtype=dtype)
        tokens[:, 0, :, :CONDITION] = condition
        tokens[:, :, :, CONDITION] = self.time_tokens[schedule, :steps].transpose(0, 1)[:, None]
        tokens[:, :, :, CONDITION + TIME : -patch] = linear(previous.to(dtype), self.cond_proj)

        def velocity(x: Tensor, step: int) -> Tensor:
            tokens[step, :, :, -patch:] = linear(x.to(dtype), self.in_proj)
            hidden = self.decoder.hidden_states(tokens[step].flatten(0, 1))[:, -patch:].contiguous()
            return normed_linear(hidden, self.decoder.norm, weight_of(self.out_proj), self.out_proj.bias)

        return solve(noise, self.lengths[schedule, :steps], guidance, velocity)
