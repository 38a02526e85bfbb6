"""What every launch has in common: block sizes, and programmatic dependent launch.

Where rows are few, a kernel may start while the one before it is still running (Hopper's programmatic dependent
launch): its blocks take the places that become free, load what they can, and only then wait. Hence the one rule every
kernel here keeps: before `after_predecessor` it writes nothing, and reads only what never changes, such as weights.
With more rows it does not pay: who comes early takes the room of who is still at work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
import triton
import triton.language as tl

OVERLAP_ROWS = 4
"""Up to so many rows kernels overlap."""

_overlap: bool | None = None


@triton.jit
def after_predecessor(OVERLAP: tl.constexpr):
    if OVERLAP:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()


@contextmanager
def overlap(wanted: bool) -> Iterator[None]:
    """Whether kernels may start before their predecessor ends, however many rows; ignored where the GPU cannot."""
    global _overlap
    before, _overlap = _overlap, wanted
    try:
        yield
    finally:
        _overlap = before


def options(rows: int | None = None) -> dict[str, bool]:
    """Keyword arguments of every launch."""
    wanted = _overlap if _overlap is not None else rows is not None and rows <= OVERLAP_ROWS
    if wanted and _hopper():
        return {"OVERLAP": True, "launch_pdl": True}
    return {"OVERLAP": False}


@cache
def _hopper() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 9


@cache
def reads_float8() -> bool:
    """Whether kernels can widen 8-bit floats: GPUs since Ada can, and so can the interpreter."""
    return not torch.cuda.is_available() or torch.cuda.get_device_capability() >= (8, 9)


def power_of_two(n: int, least: int = 1) -> int:
    """The smallest power of two that holds `n`."""
    return max(least, 1 << (n - 1).bit_length())
