"""Rotary position embedding, half-split layout: the first half of a head rotates against the second."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rhapsode.nn.kernels.rotary import RotaryAngles, rotary_angles


@dataclass(frozen=True)
class Llama3Scaling:
    """Llama 3: frequencies with a long wavelength are divided by `factor`, those with a short one are kept."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    def apply(self, frequencies: Tensor) -> Tensor:
        """Returns the scaled frequencies; between the two wavelengths, a blend."""
        turns = self.original_max_position_embeddings * frequencies / (2 * math.pi)  # within the original context
        share = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        share = share.clamp(0, 1)
        return (1 - share) * frequencies / self.factor + share * frequencies


@dataclass(frozen=True)
class RopeConfig:
    """Rotary frequencies of a head. Scaled variants add their fields here and a branch in `inv_freq`."""

    head_dim: int
    theta: float = 10_000.0
    factors: tuple[float, ...] = ()
    """LongRoPE: divides the frequency of each pair of channels."""
    scale: float = 1.0
    """LongRoPE: multiplies cosines and sines."""
    llama3: Llama3Scaling | None = None
    rounded: bool = False
    """Cosines and sines have the precision of bfloat16, whatever the model's, because the checkpoint was trained so."""


def inv_freq(config: RopeConfig) -> Tensor:
    """Returns the radians per position of each pair of channels, [head_dim / 2], in float32 as every upstream does."""
    # An explicit device: modules are built on the meta device, and this is no parameter to be loaded.
    pair = torch.arange(0, config.head_dim, 2, dtype=torch.int64, device="cpu").float()
    frequencies = 1.0 / (config.theta ** (pair / config.head_dim))
    if config.llama3 is not None:
        return config.llama3.apply(frequencies)
    return frequencies / torch.tensor(config.factors, device="cpu") if config.factors else frequencies


class Rope(nn.Module):
    """Computes the rotary angles of positions."""

    inv_freq: Tensor

    def __init__(self, config: RopeConfig) -> None:
        super().__init__()
        self.register_buffer("inv_freq", inv_freq(config), persistent=False)
        self._scale = config.scale
        self.rounded = config.rounded

    def forward(self, positions: Tensor, dtype: torch.dtype) -> RotaryAngles:
        """Returns the angles of `positions [B, T]`."""
        return rotary_angles(positions, self.inv_freq, self._scale, self.rounded, dtype)
