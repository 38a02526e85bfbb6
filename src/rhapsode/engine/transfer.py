"""Values on their way to the host, without anyone waiting for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.audio.samples import from_pcm16, scaled16
from rhapsode.types import Samples

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


def packed(audio: Tensor) -> Tensor:
    """Samples `[B, channels, n]` as 16-bit numbers, half the bytes of what they are.

    One more at the end of each channel says what 16 bits cannot: whether all of them were finite.
    """
    wide = audio.to(torch.float32)
    finite = wide.abs().amax(dim=2, keepdim=True) < float("inf")
    return torch.cat((scaled16(wide).to(torch.int16), finite.to(torch.int16)), dim=2)


def unpacked(values: NDArray[Any]) -> Samples:
    """The samples of one row, packed or not, in an array of their own."""
    if values.dtype != np.int16:
        return values.copy()
    samples = from_pcm16(values[:, :-1])
    return samples if values[:, -1].all() else np.full_like(samples, np.nan)


def lag_of(device: torch.device) -> int:
    """How many launches may be under way while the host reads an earlier one's results."""
    return 1 if device.type == "cuda" else 0
