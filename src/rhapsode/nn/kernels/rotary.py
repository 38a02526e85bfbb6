"""Cosines and sines of a rotary position embedding, and the plain PyTorch rotation."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rhapsode.nn import kernels


class RotaryAngles(NamedTuple):
    """Cosines and signed sines of a batch of positions."""

    cos: Tensor  # [B, T, 1, head_dim]
    sin: Tensor  # [B, T, 1, head_dim], the first half negated

    def rotate(self, x: Tensor) -> Tensor:
        """Rotates each head of `x [B, T, heads, head_dim]` by its position."""
        return torch.addcmul(x * self.cos, x.roll(x.shape[-1] // 2, dims=-1), self.sin)


def rotary_angles(positions: Tensor, inv_freq: Tensor, scale: float, rounded: bool, dtype: torch.dtype) -> RotaryAngles:
    """Returns the angles of `positions [B, T]`, times `inv_freq [D / 2]`; cosines and sines times `scale`.

    `rounded`: cosines and sines are rounded to bfloat16 first.
    """
    if kernels.on(inv_freq):
        from rhapsode.nn.kernels.gpu.rotary import angles

        return RotaryAngles(*angles(positions, inv_freq, scale, rounded, dtype))
    return rotary_angles_reference(positions, inv_freq, scale, rounded, dtype)


def rotary_angles_reference(
    positions: Tensor, inv_freq: Tensor, scale: float, rounded: bool, dtype: torch.dtype
) -> RotaryAngles:
    angle = positions[..., None, None].float() * inv_freq  # [B, T, 1, D / 2]
    cos, sin = angle.cos(), angle.sin()
    if scale != 1.0:
        cos, sin = cos * scale, sin * scale
    if rounded:
        cos, sin = cos.bfloat16(), sin.bfloat16()
    return RotaryAngles(torch.cat((cos, cos), dim=-1).to(dtype), torch.cat((-sin, sin), dim=-1).to(dtype))
