"""Zeroed tensors whose memory is provided only when it is used."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

ALIGNMENT = 64
"""Bytes, as torch's own allocator aligns its memory."""


def zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str) -> Tensor:
    """Returns a zeroed tensor. On a CPU the system provides its memory page by page, when it is first written.

    `torch.zeros` writes all of it at once: a gigabyte of keys and values for requests that may never come.
    """
    if torch.device(device).type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    size = math.prod(shape) * dtype.itemsize
    memory = torch.from_numpy(np.zeros(size + ALIGNMENT, np.uint8))
    start = -memory.data_ptr() % ALIGNMENT
    return memory[start : start + size].view(dtype).view(shape)
