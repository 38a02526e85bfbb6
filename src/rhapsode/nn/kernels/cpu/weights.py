"""Weights as the C kernels read them, and memory that lives as long as what points to it."""

from __future__ import annotations

import ctypes

import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.nn.kernels.cpu.library import library

PANEL = 32
"""Outputs that a product computes together."""


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


def fits_half(*weights: Tensor) -> bool:
    """Whether 16 bits hold these weights exactly, as they do where the checkpoint has no more, and are read faster."""
    kernels = library()
    return (
        kernels is not None
        and bool(kernels.reads_half())
        and all(torch.equal(weight, weight.half().to(weight.dtype)) for weight in weights)
    )


def panels(weight: Tensor, half: bool) -> Tensor:
    """Packs `weight [N, K]` as `[N / PANEL, K, PANEL]`, with rows of zeros at the end."""
    padded = F.pad(weight.detach(), (0, 0, 0, -weight.shape[0] % PANEL))
    packed = padded.unflatten(0, (-1, PANEL)).transpose(1, 2)
    return packed.half().contiguous() if half else packed.float().contiguous()


def padded_bias(bias: Tensor | None) -> Tensor | None:
    """Pads a bias to whole panels."""
    return None if bias is None else F.pad(bias.detach().float(), (0, -len(bias) % PANEL))


def pointer(tensor: Tensor | None) -> ctypes.c_void_p | None:
    """Returns the address of a contiguous tensor, as an argument."""
    return None if tensor is None else ctypes.c_void_p(tensor.data_ptr())


def integer(value: int) -> ctypes.c_int64:
    return ctypes.c_int64(value)
