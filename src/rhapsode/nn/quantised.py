"""Weights in 8 bits, floats on a GPU and integers on a CPU: fewer bytes to read, where that is what takes the time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rhapsode.nn import kernels
from rhapsode.nn.kernels import int8
from rhapsode.nn.kernels.int8 import Int8Weight
from rhapsode.nn.kernels.weight import Float8Weight

FLOAT8 = torch.float8_e4m3fn
LARGEST = torch.finfo(FLOAT8).max


class Quantised(nn.Module):
    """Replaces a weight `[N, K]` by 8-bit values and one scale per output.

    Kernels for up to 16 rows read the 8-bit values, except of large matrices from five rows on. Otherwise arithmetic
    dominates, so the same numbers are also kept as `dense` in the original dtype. Converting them for each launch would
    move five bytes per weight where two are read, and 8-bit products would round the activations, too. So no batch is
    slower than without quantisation, and all batches see the same weights. The price is memory: one and a half times
    the original.
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
        dense = Float8Weight(self.values, scales).dequantised(weight.dtype) if kernels.on(weight) else None
        self.register_buffer("dense", dense, persistent=False)

    @property
    def packed(self) -> Float8Weight:
        """The record that kernels take."""
        return Float8Weight(self.values, self.scales, self.dense)


class Int8Quantised(nn.Module):
    """Replaces a weight `[N, K]` on a CPU by 8-bit integers with one scale per output.

    The C kernels multiply by the integers. Where they do not run, PyTorch does so for up to four rows, those of decode
    steps; for prompts and larger batches the same numbers are kept as `dense`, so all launches see the same weights.
    """

    dense: Tensor  # [N, K]
    values: Tensor  # [N, K]
    scales: Tensor  # [N], float32

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        wide = weight.detach().float()
        scales = wide.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny * int8.LARGEST) / int8.LARGEST
        values = (wide / scales[:, None]).round().to(torch.int8)
        self.register_buffer("dense", (values.float() * scales[:, None]).to(weight.dtype), persistent=False)
        self.register_buffer("values", values, persistent=False)
        self.register_buffer("scales", scales, persistent=False)
        self._handle = int8.pack(values, scales)
        int8.forget_with(self, self._handle)

    @property
    def packed(self) -> Int8Weight:
        """The record that kernels take."""
        return Int8Weight(self._handle, self.dense, self.values, self.scales)


@torch.no_grad()
def quantise(module: nn.Module, kind: type[Quantised] | type[Int8Quantised] = Quantised) -> None:
    """Quantises every linear layer of `module`. Call it once the weights are loaded."""
    for layer in list(module.modules()):
        if isinstance(layer, nn.Linear):
            weight = kind(layer.weight)
            del layer.weight
            layer.add_module("weight", weight)
