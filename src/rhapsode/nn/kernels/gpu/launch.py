"""What every launch shares: block sizes, and programmatic dependent launch.

With few rows a kernel may start while the previous one still runs (Hopper's programmatic dependent launch): its blocks
use the multiprocessors that become free, load what they can, and then wait. So every kernel follows one rule: before
`wait_for_previous` it writes nothing, and reads only what never changes, such as weights. With many rows this does not
pay, because the early blocks take resources from those that still work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
import triton
import triton.language as tl

OVERLAP_ROWS = 4
"""Up to this many rows kernels overlap."""

LIGHT_OVERLAP_ROWS = 32
"""Up to this many rows kernels overlap that read no weights: one that starts early takes nothing from the others."""

MULTIPROCESSORS = 132
"""Of an H100 or H200: launches are cut so that each has work."""

_overlap: bool | None = None


@triton.jit
def wait_for_previous(OVERLAP: tl.constexpr):
    """Waits for the previous kernel, and lets the next one start."""
    if OVERLAP:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()


@contextmanager
def overlap(wanted: bool) -> Iterator[None]:
    """Forces overlap on or off for any number of rows; without effect on GPUs that cannot overlap."""
    global _overlap
    before, _overlap = _overlap, wanted
    try:
        yield
    finally:
        _overlap = before


def options(rows: int | None = None, most: int = OVERLAP_ROWS) -> dict[str, bool]:
    """Returns the keyword arguments of every launch; without `rows`, or with more than `most`, it does not overlap."""
    wanted = _overlap if _overlap is not None else rows is not None and rows <= most
    if wanted and _hopper():
        return {"OVERLAP": True, "launch_pdl": True}
    return {"OVERLAP": False}


@cache
def _hopper() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 9


@cache
def reads_float8() -> bool:
    """Whether kernels can convert 8-bit floats: GPUs since Ada can, and so can the interpreter."""
    return not torch.cuda.is_available() or torch.cuda.get_device_capability() >= (8, 9)


def power_of_two(n: int, least: int = 1) -> int:
    """Returns the smallest power of two that is at least `n` and `least`."""
    return max(least, 1 << (n - 1).bit_length())
