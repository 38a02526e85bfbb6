"""Cosines and sines of a rotary position embedding, and the plain PyTorch rotation."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class RotaryAngles(NamedTuple):
    """Cosines and signed sines of a batch of positions."""

    cos: Tensor  # [B, T, 1, head_dim]
    sin: Tensor  # [B, T, 1, head_dim], the first half negated

    def rotate(self, x: Tensor) -> Tensor:
        """Rotates each head of `x [B, T, heads, head_dim]` by its position."""
        return torch.addcmul(x * self.cos, x.roll(x.shape[-1] // 2, dims=-1), self.sin)
