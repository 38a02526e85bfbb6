"""Rotary position embedding, half-split layout: the first half of a head rotates against the second.

Some checkpoints rotate adjacent channels instead. Their query and key weights are reordered once, after loading:
attention does not depend on the order of channels, as long as queries and keys have the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rhapsode.nn.kernels.rotary import RotaryAngles


@dataclass(frozen=True)
class RopeConfig:
    """Rotary frequencies of a head. Scaled variants add their fields here and a branch in `inv_freq`."""

    head_dim: int
    theta: float = 10_000.0
    factors: tuple[float, ...] = ()
    """LongRoPE: divides the frequency of each pair of channels."""
    scale: float = 1.0
    """LongRoPE: multiplies cosines and sines."""
    adjacent: bool = False
    """The checkpoint rotates channels 2 i and 2 i + 1 against each other."""


def inv_freq(config: RopeConfig) -> Tensor:
    """Radians per position of each pair of channels, [head_dim / 2]; in float32, as every upstream computes it."""
    # An explicit device: modules are built on the meta device, and this is no parameter to be loaded.
    pair = torch.arange(0, config.head_dim, 2, dtype=torch.int64, device="cpu").float()
    frequencies = 1.0 / (config.theta ** (pair / config.head_dim))
    return frequencies / torch.tensor(config.factors, device="cpu") if config.factors else frequencies


def split_halves(rows: Tensor, heads: int) -> Tensor:
    """Reorders the rows of a projection to `heads` heads from adjacent pairs to halves: `[heads * D, ...]`."""
    pairs = rows.unflatten(0, (heads, -1, 2))  # [heads, D / 2, 2, ...]
    return pairs.transpose(1, 2).flatten(0, 2).contiguous()


class Rope(nn.Module):
    """Computes the rotary angles of positions."""

    inv_freq: Tensor

    def __init__(self, config: RopeConfig) -> None:
        super().__init__()
        self.register_buffer("inv_freq", inv_freq(config), persistent=False)
        self._scale = config.scale

    def forward(self, positions: Tensor, dtype: torch.dtype) -> RotaryAngles:
        """For `positions [B, T]`."""
        angle = positions[..., None, None].float() * self.inv_freq  # [B, T, 1, D / 2]
        cos, sin = angle.cos(), angle.sin()
        if self._scale != 1.0:
            cos, sin = cos * self._scale, sin * self._scale
        return RotaryAngles(torch.cat((cos, cos), dim=-1).to(dtype), torch.cat((-sin, sin), dim=-1).to(dtype))
