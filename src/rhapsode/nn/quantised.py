"""8-bit weights, as floats on a GPU and as integers on a CPU: there are fewer bytes to read, which takes less time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from rhapsode.nn.kernels import int8
from rhapsode.nn.kernels.int8 import Int8Weight
from rhapsode.nn.kernels.weight import FLOAT8, Float8Weight, GpuWeight

LARGEST = torch.finfo(FLOAT8).max


class Quantised(nn.Module):
    """Replaces a weight `[N, K]` by 8-bit values and one scale per output.

    Kernels widen the values where they multiply, or split each activation into two 8-bit floats, which keep as many
    bits as bfloat16 has. So batches of all sizes use the same 8-bit values.
    """

    values: Tensor  # [N, K]
    scales: Tensor  # [N], float32
    widened: Tensor | None = None  # [N, K], while there is a wider copy

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        wide = weight.detach().float()
        least = torch.finfo(torch.float32).tiny * LARGEST  # a row of zeros has a scale, too
        scales = wide.abs().amax(dim=1).clamp(min=least) / LARGEST
        self.register_buffer("values", (wide / scales[:, None]).to(FLOAT8), persistent=False)
        self.register_buffer("scales", scales, persistent=False)

    @property
    def packed(self) -> GpuWeight:
        """The weight in the form that kernels take."""
        return Float8Weight(self.values, self.scales) if self.widened is None else self.widened


class Widened:
    """A copy of the 8-bit layers of `module` in a wider dtype, for several consecutive passes over many rows."""

    def __init__(self, module: nn.Module, dtype: torch.dtype) -> None:
        from rhapsode.nn.kernels.gpu.dequantise import dequantised

        layers = [layer for layer in module.modules() if isinstance(layer, Quantised)]
        self._copies = [(layer, dequantised(layer.values, layer.scales, dtype)) for layer in layers]

    @contextmanager
    def used(self) -> Iterator[None]:
        """Returns a context in which layers multiply by the copy."""
        try:
            for layer, copy in self._copies:
                layer.widened = copy
            yield
        finally:
            for layer, _ in self._copies:
                layer.widened = None


class Int8Quantised(nn.Module):
    """Replaces a weight `[N, K]` on a CPU by 8-bit integers with one scale per output.

    The C kernels multiply by the integers. Where they do not run, PyTorch does so for up to four rows, as decode steps
    have. Prompts and larger batches use `dense`, the same numbers as floats, so all launches see the same weights.
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
