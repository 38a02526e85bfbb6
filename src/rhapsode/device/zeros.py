"""Zeroed tensors whose memory the system provides when it is written, and takes back when it is not needed."""

from __future__ import annotations

import ctypes
import math
import mmap
import sys

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


def give_back(unused: Tensor) -> None:
    """Returns the memory of a contiguous part of such a tensor on a CPU to the system; its values are lost.

    Does nothing where the system is not Linux.
    """
    if sys.platform != "linux":
        return
    start = -(-unused.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (unused.data_ptr() + unused.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - start
    if size > 0:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.MADV_DONTNEED)
