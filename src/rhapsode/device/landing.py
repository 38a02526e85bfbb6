"""Values on their way to the host, without anyone waiting for them."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

LANDING_S = 0.0001
"""How often to look whether a copy is there."""


class Landing:
    """One device-to-host copy. On a GPU it goes through pinned memory and is waited for a launch later."""

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
        """The values; waits for the copy if it is still under way."""
        if self._event is not None:
            self._event.synchronize()
        return self._host.numpy()


def lag_of(device: torch.device) -> int:
    """How many launches may be under way while the host reads an earlier one's results."""
    return 1 if device.type == "cuda" else 0
