"""Copies from the host to the device that nobody has to wait for."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device import host_blocks


def fill(target: Tensor, values: NDArray[Any]) -> None:
    """Copies an array into a contiguous tensor of its shape and type.

    For a GPU that goes through pinned memory: a plain copy would wait for everything launched before it.
    """
    if not target.is_cuda:
        target.copy_(torch.from_numpy(values))
        return
    block = host_blocks.take(values.nbytes, target.device)
    block.bytes[: values.nbytes] = as_bytes(values)
    block.copy_to(target)
    host_blocks.give_back(block)


def upload(values: NDArray[Any], device: torch.device) -> Tensor:
    """Returns a tensor on the device with the values of an array."""
    if device.type != "cuda":
        return torch.from_numpy(values).to(device)
    target = torch.empty(values.shape, dtype=torch_type(values.dtype), device=device)
    fill(target, values)
    return target


@cache
def torch_type(dtype: np.dtype[Any]) -> torch.dtype:
    """Returns the type of a tensor that has these numbers."""
    return torch.from_numpy(np.empty(0, dtype)).dtype


def copy_rows(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Copies an array into one of its shape, on the host.

    Numpy would give Python's lock away. A thread that reads requests would take it, and return it after 5 ms.
    """
    if target.dtype == source.dtype and target.flags.c_contiguous:
        as_bytes(target)[:] = as_bytes(source)
    else:
        target[:] = source


def as_bytes(values: NDArray[Any]) -> memoryview:
    """The bytes of an array, without a copy if it is contiguous."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
