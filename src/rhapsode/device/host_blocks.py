"""Pinned host memory, through which arrays are copied to and from a GPU while the host goes on."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device import cuda_calls

LEAST_BYTES = 4096


class HostBlock:
    """A block of pinned memory. It knows whether the last copy from it or into it has ended."""

    def __init__(self, nbytes: int, device: torch.device) -> None:
        self.device = device
        self._memory = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        self._address = self._memory.data_ptr()
        self._copied = cuda_calls.CudaEvent(device)
        self.bytes = self._memory.numpy().data
        """The memory. Assigning to a slice of it keeps Python's lock, which numpy would release."""

    def __len__(self) -> int:
        return len(self.bytes)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Returns the block's first bytes as an array, without a copy."""
        return np.frombuffer(self.bytes, dtype, math.prod(shape)).reshape(shape)

    def copy_to(self, target: Tensor) -> None:
        """Starts a copy of the block's first bytes into a tensor on the device."""
        cuda_calls.copy(target.data_ptr(), self._address, target.nbytes, self.device)
        self._copied.record()

    def copy_from(self, source: Tensor) -> None:
        """Starts a copy of a tensor on the device into the block's first bytes."""
        cuda_calls.copy(self._address, source.data_ptr(), source.nbytes, self.device)
        self._copied.record()

    def is_copied(self) -> bool:
        return self._copied.is_past()


def send(target: Tensor, write: Callable[[memoryview], None]) -> None:
    """Fills a tensor on a GPU with the bytes that `write` puts into a block. The host does not wait for the copy."""
    block = take(target.nbytes, target.device)
    write(block.bytes)
    block.copy_to(target)
    give_back(block)


_free: defaultdict[tuple[torch.device, int], deque[HostBlock]] = defaultdict(deque)  # by device and size


def take(nbytes: int, device: torch.device) -> HostBlock:
    """Returns a block of at least this many bytes that no copy in flight uses."""
    size = max(LEAST_BYTES, 1 << (nbytes - 1).bit_length())
    free = _free[device, size]
    try:
        block = free.popleft()
    except IndexError:
        return HostBlock(size, device)
    if block.is_copied():
        return block
    free.append(block)
    return HostBlock(size, device)


def give_back(block: HostBlock) -> None:
    """Returns a block to the pool. It is used again once its last copy has ended."""
    _free[block.device, len(block)].append(block)
