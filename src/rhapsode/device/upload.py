"""Asynchronous copies from the host to the device."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device import host_blocks
from rhapsode.device.host_copies import as_bytes


def fill(target: Tensor, values: NDArray[Any]) -> None:
    """Copies an array into a contiguous tensor of its shape and type.

    For a GPU that goes through pinned memory: a plain copy would wait for everything launched before it.
    """
    if not target.is_cuda:
        target.copy_(torch.from_numpy(values))
        return

    def write(held: memoryview) -> None:
        held[: values.nbytes] = as_bytes(values)

    host_blocks.send(target, write)


def upload(values: NDArray[Any], device: torch.device) -> Tensor:
    """Returns a tensor on the device with the values of an array."""
    if device.type != "cuda":
        return torch.from_numpy(values).to(device)
    target = torch.empty(values.shape, dtype=torch_type(values.dtype), device=device)
    fill(target, values)
    return target


@cache
def torch_type(dtype: np.dtype[Any]) -> torch.dtype:
    """Returns the torch type for a numpy type."""
    return torch.from_numpy(np.empty(0, dtype)).dtype
