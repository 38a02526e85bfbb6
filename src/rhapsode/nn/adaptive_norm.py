"""Norms whose gain and bias are computed from a style vector."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.nn.ragged import Ragged

EPS = 1e-5


class StyleAffine(nn.Module):
    """Computes a gain, as its distance from 1, and a bias for each channel."""

    def __init__(self, style: int, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(style, 2 * channels)

    def affine(self, style: Tensor) -> tuple[Tensor, Tensor]:
        """Maps `style [B, S]` to gains and biases, `[B, C]` each."""
        gain, bias = self.fc(style).chunk(2, dim=1)
        return 1 + gain, bias


class AdaptiveInstanceNorm(StyleAffine):
    """Normalises each channel over the time of each item, and puts zeros beyond its end."""

    def forward(self, x: Tensor, style: Tensor, ragged: Ragged) -> Tensor:
        """Maps `x [B, C, T]` to the same shape."""
        gain, bias = self.affine(style)
        return masked_instance_norm(x, gain, bias, ragged)


class AdaptiveLayerNorm(StyleAffine):
    """Normalises the channels at each position."""

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """Maps `x [B, T, C]` to the same shape."""
        gain, bias = self.affine(style)
        return torch.addcmul(bias[:, None], F.layer_norm(x, x.shape[-1:], eps=EPS), gain[:, None])


def masked_instance_norm(x: Tensor, gain: Tensor, bias: Tensor, ragged: Ragged) -> Tensor:
    """Normalises `x [B, C, T]` over the valid positions of each item, with a gain and a bias `[B, C]`.

    Sums of half-precision numbers are taken in float32.
    """
    if ragged.mask is None and len(x) == 1 and x.device.type == "cpu":
        return F.batch_norm(x[:, :, None], None, None, gain[0], bias[0], training=True, eps=EPS)[:, :, 0]
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    count = ragged.lengths[:, None].to(wide.dtype)
    mean = ragged.cut(wide).sum(2) / count
    centred = ragged.cut(wide - mean[..., None])
    variance = centred.square().sum(2) / count
    scale = gain * (variance + EPS).rsqrt()
    return ragged.cut(centred.mul_(scale[..., None]).add_(bias[..., None]).to(x.dtype))
