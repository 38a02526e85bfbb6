"""The two local transformers: one encodes a patch, the other predicts the velocity of a noisy patch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.device.sections import section
from rhapsode.models.voxcpm2.config import VoxConfig
from rhapsode.nn.derived import Derived
from rhapsode.nn.flow import Schedules, euler_steps, sinusoids, solve, sway_times, zero_star_skip
from rhapsode.nn.flow_head import KnownTokens, token_velocity
from rhapsode.nn.linear import linear
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
        width = self.linear_1.in_features
        waves = torch.cat(sinusoids(1000 * times, width, last_rank=width // 2 - 1), dim=-1)
        return self.linear_2(F.silu(self.linear_1(waves)))


def schedules(max_timesteps: int, dtype: torch.dtype) -> Schedules:
    """Returns the steps for every number of timesteps: row `i` is for `i + 1` of them."""
    counts = range(1, max_timesteps + 1)
    return Schedules([euler_steps(sway_times(n, dtype), zero_star_skip(n)) for n in counts])


class LocalDiT(Derived):
    """Predicts the velocities of a noisy patch, and integrates them from noise to a patch.

    The times of all steps are known, so their tokens are computed once.
    """

    time_tokens: Tensor  # [max timesteps, max steps, hidden]
    changes: Tensor  # [max timesteps, max steps] float32, of time

    def __init__(self, config: VoxConfig, dtype: torch.dtype, max_timesteps: int) -> None:
        super().__init__()
        layers, feat = config.dit.of(config.lm).layers(), config.patch.feat_dim
        self._mean_mode = config.dit.dit_mean_mode
        self.schedules = schedules(max_timesteps, dtype)
        self.in_proj = nn.Linear(feat, layers.hidden)
        self.cond_proj = nn.Linear(feat, layers.hidden)
        self.out_proj = nn.Linear(layers.hidden, feat)
        self.time_mlp = TimeMLP(layers.hidden)
        self.delta_time_mlp = TimeMLP(layers.hidden)
        self.decoder = LocalStack(layers, CONDITION + TIME + 2 * config.patch.patch_size)
        self.register_buffer("time_tokens", None, persistent=False)
        self.register_buffer("changes", None, persistent=False)

    def derive(self) -> None:
        weight = self.in_proj.weight
        times, changes = (table.to(weight.device) for table in (self.schedules.times, self.schedules.changes))
        deltas = -changes if self._mean_mode else torch.zeros_like(changes)
        self.time_tokens = self.time_mlp(times.to(weight.dtype)) + self.delta_time_mlp(deltas.to(weight.dtype))
        self.changes = changes.to(torch.promote_types(weight.dtype, torch.float32))

    @section("depth")
    def forward(
        self, noise: Tensor, condition: Tensor, previous: Tensor, schedule: Tensor, guidance: Tensor, steps: int
    ) -> Tensor:
        """Integrates from `noise [B, patch, feat]` to the patch after the `previous` one.

        `condition [B, 2, hidden]` are the language models' outputs; the unconditional half of the batch has zeros
        instead. Each row has its own `schedule [B]` and `guidance [B]` scale; no schedule has more than `steps` steps.
        """
        context = linear(previous.to(self.cond_proj.weight.dtype), self.cond_proj)
        known = KnownTokens(condition, self.time_tokens[schedule, :steps], context)
        velocity = token_velocity(self.decoder, self.in_proj, self.out_proj, known)
        return solve(noise, self.changes[schedule, :steps], guidance, velocity)
