"""A ConvNeXt block in one call per row."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor

from rhapsode.nn.kernels.cpu.library import library
from rhapsode.nn.kernels.cpu.weights import Addresses, fits_half, integer, padded_bias, panels, pointer


class ConvNeXtWeights(NamedTuple):
    """The weights of a block; the last scale is part of the second product."""

    depthwise: Tensor  # [taps, channels]
    depthwise_bias: Tensor
    norm: Tensor
    norm_bias: Tensor
    first: Tensor  # [inner, channels]
    first_bias: Tensor
    second: Tensor  # [channels, inner]
    second_bias: Tensor


class _ConvNeXt(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("channels", "inner", "taps", "is_half", "is_relu")),
        ("eps", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("depthwise", "depthwise_bias", "norm", "norm_bias")),
        *((name, ctypes.c_void_p) for name in ("first", "second", "first_bias", "second_bias")),
    )


class ConvNeXtProgram:
    """A block whose weights are packed."""

    def __init__(self, weights: ConvNeXtWeights, eps: float, *, relu: bool = False) -> None:
        """Between the products is a GELU, or a ReLU."""
        self._addresses, half = Addresses(), fits_half(weights.first, weights.second)
        products = panels(weights.first, half), panels(weights.second, half)
        biases = padded_bias(weights.first_bias), padded_bias(weights.second_bias)
        taps, channels = weights.depthwise.shape
        self._block = _ConvNeXt(
            *(channels, len(weights.first), taps, half, relu, eps),
            *(self._addresses.of(tensor) for tensor in (*weights[:4], *products, *biases)),
        )

    def run(self, x: Tensor, tail: Tensor) -> None:
        """Continues one slot with `x [T, channels]`, in place."""
        kernels, block = library(), ctypes.byref(self._block)
        assert kernels is not None
        space = torch.empty(kernels.convnext_space(block, integer(len(x))))
        kernels.run_convnext(block, pointer(x), integer(len(x)), pointer(tail), pointer(space))
