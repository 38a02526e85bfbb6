"""Arrays of samples: float32 `[channels, samples]`, full scale 1.0, and their 16-bit twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from rhapsode.errors import GenerationFailed, InvalidRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from rhapsode.types import Samples

    Wave = TypeVar("Wave", Samples, Tensor)

LAYOUTS = {1: "mono", 2: "stereo"}


def layout_of(channels: int) -> str:
    """The name PyAV has for this many channels."""
    if channels not in LAYOUTS:
        raise InvalidRequest(f"Audio must be mono or stereo, not {channels} channels.", param="channels")
    return LAYOUTS[channels]


def silence(channels: int, length: int = 0) -> Samples:
    return np.zeros((channels, length), dtype=np.float32)


def shaped(samples: Samples, channels: int) -> Samples:
    """The samples as float32, once their shape has been found to be `[channels, n]`."""
    if samples.ndim != 2 or samples.shape[0] != channels:
        raise ValueError(f"expected samples of shape [{channels}, n], got {list(samples.shape)}")
    return samples.astype(np.float32, copy=False)


def finite(samples: Samples) -> Samples:
    """The samples as they are; NaN or infinity is a failure upstream and never becomes sound."""
    if not np.isfinite(samples).all():
        raise GenerationFailed("The generated audio contains samples that are not finite numbers.")
    return samples


def clipped(samples: Samples) -> Samples:
    """The samples within full scale."""
    return np.clip(finite(samples), -1.0, 1.0)


def scaled16(samples: Wave) -> Wave:
    """What 16 bits keep of float32 samples, in this process or on a GPU: clipped, rounded to nearest. Still floats."""
    return (samples.clip(-1.0, 1.0) * 32768.0).round().clip(max=32767.0)


def pcm16(samples: Samples) -> NDArray[np.int16]:
    """Float to 16 bits: the exact inverse of `from_pcm16`."""
    return scaled16(finite(samples)).astype(np.int16)


def from_pcm16(values: NDArray[np.int16]) -> Samples:
    return values.astype(np.float32) / np.float32(32768.0)
