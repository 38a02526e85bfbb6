"""Samples as 16-bit numbers for the copy from a GPU: half the bytes of float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.audio.samples import scaled16
from rhapsode.device.host_copies import copy_into
from rhapsode.types import Samples


def packed(audio: Tensor) -> Tensor:
    """Returns samples `[B, channels, n]` as 16-bit numbers.

    One more number at the end of each channel says what 16 bits cannot: whether all its samples were finite.
    """
    wide = audio.to(torch.float32)
    finite = wide.abs().amax(dim=2, keepdim=True) < float("inf")
    return torch.cat((scaled16(wide).to(torch.int16), finite.to(torch.int16)), dim=2)


def unpacked(values: NDArray[Any], start: int, stop: int) -> Samples | NDArray[np.int16]:
    """Returns a copy of samples `[start, stop)` of one row: 16-bit numbers if packed, but NaN if not all are finite."""
    chosen = values[:, start:stop]
    kept: NDArray[Any] = np.empty(chosen.shape, values.dtype)
    copy_into(kept, chosen)
    if values.dtype == np.int16 and 0 in values[:, -1].tolist():
        return np.full(kept.shape, np.nan, np.float32)
    return kept
