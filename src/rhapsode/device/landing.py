"""Copies from the device to the host that nobody has to wait for."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

LANDING_S = 0.0001
"""How often to check whether a copy has arrived."""


class Landing:
    """One copy to the host. On a GPU it goes through pinned memory, and is read one launch later."""

    def __init__(self, tensor: Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        if tensor.is_cuda:
            self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._host.copy_(tensor, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()
        else:
            self._host = tensor

    def ready(self) -> bool:
        return self._event is None or bool(self._event.query())

    def numpy(self) -> NDArray[Any]:
        """Returns the values; waits if the copy has not arrived."""
        if self._event is not None:
            self._event.synchronize()
        return self._host.numpy()


def lag_of(device: torch.device) -> int:
    """Returns how many more launches may be in flight while the host reads the results of an earlier one."""
    return 1 if device.type == "cuda" else 0
