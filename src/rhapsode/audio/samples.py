"""Arrays of samples: float32 `[channels, samples]` with full scale 1.0, and 16-bit integers."""

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
    """Returns PyAV's name for this number of channels."""
    if channels not in LAYOUTS:
        raise InvalidRequest(f"Audio must be mono or stereo, not {channels} channels.", param="channels")
    return LAYOUTS[channels]


def silence(channels: int, length: int = 0) -> Samples:
    """Returns `length` samples of silence."""
    return np.zeros((channels, length), dtype=np.float32)


def shaped(samples: Samples, channels: int) -> Samples:
    """Returns the samples as float32; raises if their shape is not `[channels, n]`."""
    if samples.ndim != 2 or samples.shape[0] != channels:
        raise ValueError(f"expected samples of shape [{channels}, n], got {list(samples.shape)}")
    return samples.astype(np.float32, copy=False)


def finite(samples: Samples) -> Samples:
    """Returns the samples unchanged; raises on NaN or infinity, which a failed model produces."""
    if not np.isfinite(samples).all():
        raise GenerationFailed("The generated audio contains samples that are not finite numbers.")
    return samples


def clipped(samples: Samples) -> Samples:
    """Returns the samples clipped to full scale."""
    return np.clip(finite(samples), -1.0, 1.0)


def scaled16(samples: Wave) -> Wave:
    """Returns samples clipped, scaled to 16 bits and rounded, but still as floats. Takes NumPy arrays and tensors."""
    return (samples.clip(-1.0, 1.0) * 32768.0).round().clip(max=32767.0)


def pcm16(samples: Samples) -> NDArray[np.int16]:
    """Converts samples to 16 bits: the exact inverse of `from_pcm16`."""
    scaled = np.clip(finite(samples), -1.0, 1.0)  # as `scaled16`, in place: this is done for every chunk
    scaled *= 32768.0
    np.rint(scaled, out=scaled)
    return np.minimum(scaled, 32767.0, out=scaled).astype(np.int16)


def from_pcm16(values: NDArray[np.int16]) -> Samples:
    """Converts 16-bit values to samples."""
    return values.astype(np.float32) / np.float32(32768.0)
