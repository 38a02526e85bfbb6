"""Weights as the C kernels read them, and memory that lives as long as what points to it."""

from __future__ import annotations

import ctypes
from enum import IntEnum

import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.nn.kernels.cpu.library import library
from rhapsode.nn.kernels.int8 import Int8Weight

PANEL = 32
"""Outputs that a product computes together."""
SPAN, GROUP = 64, 4
"""Inputs that are rounded to 8 bits with one scale, and those whose weights lie side by side."""


class WeightFormat(IntEnum):
    """How the kernels read a weight."""

    FLOATS, HALVES, BYTES = range(3)


class Addresses:
    """Keeps tensors alive whose addresses C has."""

    def __init__(self) -> None:
        self._held: list[Tensor] = []

    def of(self, tensor: Tensor | None) -> int | None:
        """Returns the address of the tensor's values, in their order."""
        if tensor is None:
            return None
        self._held.append(tensor.detach().contiguous())
        return self._held[-1].data_ptr()


def format_of(*weights: Tensor | Int8Weight) -> WeightFormat:
    """Returns the format in which these weights, all of one kind, are read fastest without a change."""
    dense = [weight for weight in weights if isinstance(weight, Tensor)]
    if len(dense) < len(weights):
        return WeightFormat.BYTES
    return WeightFormat.HALVES if fits_half(*dense) else WeightFormat.FLOATS


def fits_half(*weights: Tensor) -> bool:
    """Whether 16 bits hold these weights exactly, as they do where the checkpoint has no more, and are read faster."""
    kernels = library()
    return (
        kernels is not None
        and bool(kernels.reads_half())
        and all(torch.equal(weight, weight.half().to(weight.dtype)) for weight in weights)
    )


def packed(weight: Tensor | Int8Weight, format: WeightFormat) -> Tensor:
    """Packs a weight `[N, K]` as the kernels read it."""
    if isinstance(weight, Int8Weight):
        return byte_panels(weight)
    return panels(weight, format is WeightFormat.HALVES)


def panels(weight: Tensor, half: bool) -> Tensor:
    """Packs `weight [N, K]` as `[N / PANEL, K, PANEL]`, with rows of zeros at the end."""
    padded = F.pad(weight.detach(), (0, 0, 0, -weight.shape[0] % PANEL))
    packed = padded.unflatten(0, (-1, PANEL)).transpose(1, 2)
    return packed.half().contiguous() if half else packed.float().contiguous()


def byte_panels(weight: Int8Weight) -> Tensor:
    """Packs 8-bit weights as bytes: of each panel the scales, then four inputs of each output, and so on."""
    more = -weight.values.shape[0] % PANEL
    values = F.pad(weight.values, (0, -weight.values.shape[1] % SPAN, 0, more))
    scales = F.pad(weight.scales.float(), (0, more)).view(-1, PANEL)
    groups = values.view(len(scales), PANEL, -1, GROUP).transpose(1, 2).flatten(1)
    return torch.cat((scales.view(torch.int8).view(len(scales), -1), groups), dim=1)


def padded_bias(bias: Tensor | None) -> Tensor | None:
    """Pads a bias to whole panels."""
    return None if bias is None else F.pad(bias.detach().float(), (0, -len(bias) % PANEL))


def pointer(tensor: Tensor | None) -> ctypes.c_void_p | None:
    """Returns the address of a contiguous tensor, as an argument."""
    return None if tensor is None else ctypes.c_void_p(tensor.data_ptr())


def integer(value: int) -> ctypes.c_int64:
    return ctypes.c_int64(value)
