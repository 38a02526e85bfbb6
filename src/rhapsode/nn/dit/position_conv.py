"""The convolutions that tell a diffusion transformer where frames are."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rhapsode.nn.derived import Derived
from rhapsode.nn.kernels.grouped_conv import grouped_mish_conv

GROUPS, KERNEL = 16, 31


class PositionConv(Derived):
    """A causal grouped convolution over frames, and Mish."""

    matrix: Tensor  # [dim, KERNEL * inputs of a group]

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim, dim // GROUPS, KERNEL))
        self.bias = nn.Parameter(torch.empty(dim))
        self.register_buffer("matrix", None, persistent=False)

    def derive(self) -> None:
        self.matrix = self.weight.detach().transpose(1, 2).flatten(1).contiguous()

    def forward(self, x: Tensor) -> Tensor:
        """Maps `[B, KERNEL - 1 + T, dim]` to `[B, T, dim]`."""
        return grouped_mish_conv(x, self.matrix, self.bias, GROUPS)
