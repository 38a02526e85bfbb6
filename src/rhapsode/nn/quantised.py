"""Weights as 8-bit floats: half of bfloat16's bytes to read, where reading them is what takes the time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rhapsode.nn import kernels

FLOAT8 = torch.float8_e4m3fn
LARGEST = torch.finfo(FLOAT8).max


class Quantised(nn.Module):
    """In place of a weight `[N, K]`: 8-bit values, and what those of each output are multiplied by.

    The kernel of up to four rows reads these. With more, arithmetic counts: for them the same numbers are kept as
    `dense`, too. Making those anew for each launch would move five bytes a weight where two are read, and 8-bit
    products would round the activations as well. So no batch is slower than without, and none sounds other than by
    rounding; the price is memory, one and a half times what these weights took.
    """

    values: Tensor  # [N, K]
    scales: Tensor  # [N], float32
    dense: Tensor | None  # [N, K], where kernels run

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        wide = weight.detach().float()
        least = torch.finfo(torch.float32).tiny * LARGEST  # a row of zeros has a scale, too
        scales = wide.abs().amax(dim=1).clamp(min=least) / LARGEST
        self.register_buffer("values", (wide / scales[:, None]).to(FLOAT8), persistent=False)
        self.register_buffer("scales", scales, persistent=False)
        dense = self.dequantised(weight.dtype) if kernels.on(weight) else None
        self.register_buffer("dense", dense, persistent=False)

    def dequantised(self, dtype: torch.dtype) -> Tensor:
        """The weight these numbers stand for, made anew."""
        wide = torch.promote_types(dtype, torch.float32)
        return (self.values.to(wide) * self.scales[:, None]).to(dtype)


Weight = Tensor | Quantised
"""What a linear multiplies by."""


@torch.no_grad()
def quantise(module: nn.Module) -> None:
    """Every linear of this module, once its weights are loaded."""
    for part in list(module.modules()):
        if isinstance(part, nn.Linear):
            weight = Quantised(part.weight)
            del part.weight
            part.add_module("weight", weight)
