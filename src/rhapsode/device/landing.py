"""Asynchronous copies from the device to the host."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device import host_blocks

LANDING_S = 0.0001
"""How often to check whether a copy has arrived."""


class Landing:
    """One copy to the host. On a GPU it goes through pinned memory, and is read one launch later."""

    def __init__(self, tensor: Tensor) -> None:
        self._block: host_blocks.HostBlock | None = None
        if tensor.is_cuda:
            self._block = host_blocks.take(tensor.nbytes, tensor.device)
            self._block.copy_from(tensor if tensor.is_contiguous() else tensor.contiguous())
            self._values = self._block.array(tuple(tensor.shape), _numpy_type(tensor.dtype))
        else:
            self._values = tensor.numpy()

    def ready(self) -> bool:
        return self._block is None or self._block.is_copied()

    def numpy(self) -> NDArray[Any]:
        """Returns the values, which are valid until `end`. Waits if the copy has not arrived."""
        while not self.ready():
            time.sleep(LANDING_S)
        return self._values

    def end(self) -> None:
        """Frees the memory of the values for the next copy. Call it once they have been read."""
        if self._block is not None:
            host_blocks.give_back(self._block)
            self._block = None


@cache
def _numpy_type(dtype: torch.dtype) -> np.dtype[Any]:
    return torch.empty(0, dtype=dtype).numpy().dtype


def lag_of(device: torch.device) -> int:
    """Returns how many more launches may be in flight while the host reads the results of an earlier one."""
    return 1 if device.type == "cuda" else 0
