"""Adaptive layer norms of a diffusion transformer: all Euler times are known, so their parameters are computed once.

That replaces most weights of the adaptive norms by a small table.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.nn.dit.config import DiTConfig
from rhapsode.nn.flow import sinusoids

TIME_CHANNELS, TIME_SCALE = 256, 1000.0


class DiTTables(NamedTuple):
    """Precomputed parameters, which the transformer reads in place of the weights of its adaptive norms."""

    blocks: Tensor  # [steps, depth, 6, dim]: shift, scale and gate of attention, then of the feed-forward network
    final: Tensor  # [steps, 2, dim]: scale and shift of the last norm
    inv_freq: Tensor  # [head_dim / 2], of the rotary embedding


class LayerModulation(nn.Module):
    """The linear layer of one layer's adaptive norms, by the checkpoint's names."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.attn_norm = nn.ModuleDict({"linear": nn.Linear(dim, 6 * dim)})

    def forward(self, hidden: Tensor) -> Tensor:
        return self.attn_norm["linear"](hidden)


class DiTModulation(nn.Module):
    """The time embedding and the linear layers of all adaptive norms, by the checkpoint's names."""

    inv_freq: Tensor

    def __init__(self, config: DiTConfig) -> None:
        super().__init__()
        dim = config.dim
        self.time_mlp = nn.Sequential(nn.Linear(TIME_CHANNELS, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.transformer_blocks = nn.ModuleList(LayerModulation(dim) for _ in range(config.depth))
        self.norm_out = nn.ModuleDict({"linear": nn.Linear(dim, 2 * dim)})
        self.register_buffer("inv_freq", torch.empty(config.head_dim // 2))

    def tables(self, times: Tensor) -> DiTTables:
        """Returns the tables for the times at which the steps start, `[steps]`; scales are `1 + scale`."""
        waves = sinusoids(times.to(self.inv_freq) * TIME_SCALE, TIME_CHANNELS, TIME_CHANNELS // 2 - 1)
        hidden = F.silu(self.time_mlp(torch.cat(waves, dim=-1)))  # [steps, dim]
        blocks = [block(hidden).unflatten(-1, (6, -1)) for block in self.transformer_blocks]
        stacked, final = torch.stack(blocks, dim=1), self.norm_out["linear"](hidden).unflatten(-1, (2, -1))
        for scale in (stacked[:, :, 1], stacked[:, :, 4], final[:, 0]):
            scale += 1
        return DiTTables(stacked, final, self.inv_freq)
