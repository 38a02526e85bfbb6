"""Root-mean-square normalisation as a module; for LayerNorm use torch's."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rhapsode.nn.kernels.norm import rms_norm


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)
