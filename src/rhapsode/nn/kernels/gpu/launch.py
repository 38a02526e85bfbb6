"""Functions that every launch uses: for block sizes, and for programmatic dependent launch.

With few rows a kernel may start while the previous one still runs (Hopper's programmatic dependent launch): its blocks
use the multiprocessors that become free, load what they can, and then wait. So every kernel follows one rule: before
`wait_for_previous` it writes nothing, and reads only what does not change within a step, such as weights. With many
rows this is slower, because the early blocks take resources from those that still work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

OVERLAP_ROWS = 16
"""Up to this many rows kernels overlap: Qwen3-TTS at 8 rows 3.60 to 3.22 ms."""

LIGHT_OVERLAP_ROWS = 32
"""Up to this many rows, kernels that read no weights overlap: starting one early takes nothing from the others."""

MULTIPROCESSORS = 132
"""The multiprocessors of an H100 or H200: launches are cut so that each has work."""

_overlap: bool | None = None

EARLY_ROWS = range(2, 5)
"""Numbers of rows with which a kernel lets the next one start as soon as all its own blocks run.

With other numbers of rows it does so when its input is ready. An early start puts the weights of several kernels in
flight. It is safe because every kernel that overlaps waits: when a kernel continues, all kernels before it have ended.
Qwen3-TTS at 2 rows 3.33 to 3.08 ms, but at one row 2.57 to 2.68."""


@triton.jit
def let_next_start(OVERLAP: tl.constexpr):
    """Lets the next kernel start before this one has its input, if the number of rows is one of `EARLY_ROWS`.

    `wait_for_previous` does so, too. A kernel whose early loads take long calls this function before them.
    """
    if OVERLAP == 2:
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def wait_for_previous(OVERLAP: tl.constexpr):
    """Waits until the kernel before has ended and its results can be read; then lets the next kernel start."""
    let_next_start(OVERLAP)
    if OVERLAP > 0:
        tl.extra.cuda.gdc_wait()
    if OVERLAP == 1:
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


def options(rows: int | None = None, most: int | None = None) -> dict[str, int | bool]:
    """Returns the keyword arguments of a kernel launch that say whether it may start before the previous kernel ends.

    It may if the batch has at most `most` rows (by default `OVERLAP_ROWS`) and the GPU can do it. Without `rows`, it
    waits for the previous kernel, as launches usually do.
    """
    wanted = _overlap if _overlap is not None else rows is not None and rows <= (most or OVERLAP_ROWS)
    if wanted and _hopper():
        return {"OVERLAP": 2 if rows in EARLY_ROWS else 1, "launch_pdl": True}
    return {"OVERLAP": 0}


@cache
def _hopper() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 9


@cache
def reads_float8() -> bool:
    """Whether kernels can convert 8-bit floats: GPUs since Ada can, and so can the interpreter."""
    return not torch.cuda.is_available() or torch.cuda.get_device_capability() >= (8, 9)


@cache
def shared_memory() -> int:
    """Returns how many bytes of shared memory a program may have."""
    if not torch.cuda.is_available():
        return 227 << 10
    properties: Any = torch.cuda.get_device_properties()
    return int(properties.shared_memory_per_block_optin)


def power_of_two(n: int, least: int = 1) -> int:
    """Returns the smallest power of two that is at least `n` and `least`."""
    return max(least, 1 << (n - 1).bit_length())


def blocks(n: int, size: int) -> int:
    """Returns how many blocks of `size` hold `n`. `triton.cdiv` takes 20 times as long, and launches are many."""
    return -(-n // size)
