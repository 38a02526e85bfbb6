"""Copies from the host to the device that nobody has to wait for."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def pinned(values: NDArray[Any], device: torch.device) -> Tensor:
    """Returns an array as a tensor on the host, ready to be copied: a GPU copies pinned memory while the host goes on.

    The memory is not used again before the copy has ended: torch sees to that.
    """
    host = torch.from_numpy(values)
    return host.pin_memory() if device.type == "cuda" else host


def upload(values: NDArray[Any], device: torch.device) -> Tensor:
    """Copies an array through pinned memory: a plain copy would wait for everything launched before it."""
    return pinned(values, device).to(device, non_blocking=True)
