"""SnakeBeta: an activation with a periodic term, whose frequency and size each channel learns."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rhapsode.nn import kernels


class SnakeWeights(NamedTuple):
    """The frequency and the size of each channel's periodic term, [C] or [C, 1]."""

    frequency: Tensor
    size: Tensor


def snake_beta(x: Tensor, frequency: Tensor, size: Tensor) -> Tensor:
    """Returns `x + size * sin(frequency * x) ** 2`; x is [B, C, T], the others are [C, 1]."""
    if kernels.on(x) and x.is_contiguous():
        from rhapsode.nn.kernels.gpu.snake import snake_beta as fused

        return fused(x, frequency, size)
    return snake_beta_reference(x, frequency, size)


def snake_beta_reference(x: Tensor, frequency: Tensor, size: Tensor) -> Tensor:
    wave = (x * frequency).sin_()
    return torch.addcmul(x, wave * size, wave)


def unit_snake(x: Tensor) -> Tensor:
    """Returns `x + sin(x) ** 2`, in the memory of `x [B, C, T]` where no kernel does it at once."""
    if kernels.on(x) and x.is_contiguous():
        one = torch.ones(x.shape[1], 1, dtype=x.dtype, device=x.device)
        return snake_beta(x, one, one)
    wave = x.sin()
    return x.addcmul_(wave, wave)
