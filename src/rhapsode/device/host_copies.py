"""Copies of arrays on the host that keep Python's lock.

Numpy releases the lock when it copies more than 500 numbers. Another thread, such as one that reads requests, then
takes it and keeps it for milliseconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def copy_into(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Copies the numbers of an array into another one of the same shape."""
    if target.dtype == source.dtype and target.flags.c_contiguous:
        as_bytes(target)[:] = as_bytes(source)
    else:
        target[:] = source


def as_bytes(values: NDArray[Any]) -> memoryview:
    """Returns the bytes of an array: its own memory if that is contiguous, or else a copy."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
