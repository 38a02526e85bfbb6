"""G.711: the two codings of telephony, which turn samples of 16 bits into 8 bits."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MULAW_BIAS, _MULAW_CLIP = 132, 32635


def encode_mulaw(values: NDArray[np.int16]) -> NDArray[np.uint8]:
    """Returns the mu-law code of every sample, as used for telephony in North America and Japan."""
    return _mulaw_table()[values.view(np.uint16)]


def encode_alaw(values: NDArray[np.int16]) -> NDArray[np.uint8]:
    """Returns the A-law code of every sample, as used for telephony elsewhere."""
    return _alaw_table()[values.view(np.uint16)]


@cache
def _mulaw_table() -> NDArray[np.uint8]:
    """Returns the codes of all samples. A code has a sign, a segment (the power of two) and four bits of mantissa."""
    sign, magnitude = _all_samples()
    magnitude = np.minimum(magnitude, _MULAW_CLIP) + _MULAW_BIAS
    segment = _bit_length(magnitude) - 8
    code = (sign << 7) | (segment << 4) | ((magnitude >> (segment + 3)) & 15)
    return (~code & 0xFF).astype(np.uint8)


@cache
def _alaw_table() -> NDArray[np.uint8]:
    """Returns the codes of all samples. The lowest segment is as fine as the second, and even bits are inverted."""
    sign, magnitude = _all_samples()
    segment = np.maximum(_bit_length(magnitude) - 8, 0)
    code = (segment << 4) | ((magnitude >> (np.maximum(segment, 1) + 3)) & 15)
    table: NDArray[np.uint8] = (code ^ np.where(sign == 1, 0x55, 0xD5)).astype(np.uint8)
    return table


def _all_samples() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns sign bit and magnitude of every 16-bit sample, in the order of its bits; -1 has the magnitude 0."""
    values = np.arange(2**16).astype(np.uint16).view(np.int16).astype(np.int64)
    return (values < 0).astype(np.int64), np.where(values < 0, ~values, values)


def _bit_length(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.frexp(values)[1].astype(np.int64)
