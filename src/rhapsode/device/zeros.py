"""Zeroed tensors whose memory the system provides when it is written, and takes back when it is not needed."""

from __future__ import annotations

import ctypes
import math
import mmap
import sys

import torch
from torch import Tensor


def zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str) -> Tensor:
    """Returns a zeroed tensor. On a CPU the system provides its memory page by page, when it is first written.

    `torch.zeros` writes all of it at once: a gigabyte of keys and values for requests that may never come.
    """
    if torch.device(device).type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    size = math.prod(shape) * dtype.itemsize
    if not size:
        return torch.zeros(shape, dtype=dtype)
    # Not malloc: it may take a piece that others have freed, and writes all of it.
    flags = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if sys.platform != "win32" else {}
    return torch.frombuffer(mmap.mmap(-1, size, **flags), dtype=dtype).view(shape)


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
