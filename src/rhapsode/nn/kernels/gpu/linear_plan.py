"""Chooses the kernel that multiplies a small batch by a matrix, and its tiles, by tables from sweeps on an H200.

`benchmarks/linear_plans.py` compares the plans.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, NamedTuple

import torch

from rhapsode.nn.kernels.gpu.launch import MULTIPROCESSORS, OVERLAP_ROWS, power_of_two

MOST_NUMBERS = {1: 1 << 40, 2: 1 << 24, 3: 1 << 22, 4: 1 << 22}
"""By number of rows: `_vector` multiplies matrices that have fewer numbers than this."""

MOST_VECTOR_ROWS = max(MOST_NUMBERS)

SHARED = 112 << 10
"""Bytes of a multiprocessor's shared memory that one program of `_rows` may use."""

MIN_PROGRAMS = 768
"""Programs of `_vector` a launch should have: six for each of an H200's 132 multiprocessors."""

PER_THREAD = 64
"""Weights of a thread of `_vector` if there are many outputs. 128 are faster in isolation, 64 in whole frames."""

OVERLAP_NUMBERS = 9 << 20
"""Launches with matrices of at most this many numbers overlap for any small batch."""

OVERLAP_PROGRAMS = MULTIPROCESSORS
"""Launches of at most this many programs overlap, too: a second program has room on each multiprocessor.

With more programs it is slower: Fish S2-Pro at 8 rows, most of whose matrices have 152 or 160, took 7.00 ms instead of
6.44. Qwen3-TTS, with 96 and 128, gained: 16 rows 3.82 to 3.72 ms."""

AHEAD = range(2, 17)
"""Numbers of rows that `ahead` multiplies by the matrices that fit it: Qwen3-TTS at 8 rows 4.26 to 3.50 ms."""

WAVES = 3
"""How many times programs of `ahead` may fill all multiprocessors in one launch, if two or more fit each.

One program loads while another multiplies: Qwen3-TTS at 4 rows 3.23 to 3.11 ms. If only one fits, this is slower: 16
rows 3.82 to 4.05 ms, Fish S2-Pro at 8 rows 6.51 to 7.83."""

SHARED_IN_ALL = 227 << 10
"""Bytes of shared memory of a multiprocessor."""


class Plan(NamedTuple):
    """Which kernel, and how it tiles the matrix."""

    kernel: Literal["vector", "rows", "ahead"]
    block_n: int
    block_k: int
    warps: int = 4
    stages: int = 1


def float8_plan(rows: int, width: int, k: int, gated: bool, dtype: torch.dtype, plain: bool) -> Plan | None:
    """Returns how to multiply by 8-bit weights; `None` leaves it to `gpu.float8`."""
    if rows == 1 or dtype == torch.float32:
        return vector_plan(width, k, gated) if rows <= MOST_VECTOR_ROWS else None
    plan = plan_for(rows, width, k, gated, dtype, plain) if rows in AHEAD else None
    return None if plan is None or plan.kernel == "rows" else plan


def plan_for(rows: int, width: int, k: int, gated: bool, dtype: torch.dtype, plain: bool = True) -> Plan:
    """Returns the fastest kernel that was measured for such a product.

    `plain`: the layer has neither bias nor GELU nor layer norm.
    """
    if rows in AHEAD and plain and dtype != torch.float32:
        plan = ahead_plan(rows, width, k, gated)
        if plan is not None:
            return plan
    few = width * k * (2 if gated else 1) < MOST_NUMBERS.get(rows, 0)
    # Tensor cores have no float32: `_vector` serves it, however many rows.
    return vector_plan(width, k, gated) if few or dtype == torch.float32 else rows_plan(rows, width, k, gated)


def overlapping_rows(numbers: int, programs: int) -> int:
    """Returns up to how many rows launches of `_vector` and `_rows` overlap."""
    return OVERLAP_ROWS if numbers <= OVERLAP_NUMBERS or programs <= OVERLAP_PROGRAMS else 4


def vector_plan(width: int, k: int, gated: bool) -> Plan:
    """Plans `_vector`: at most 8,192 weights per program, and several programs for every multiprocessor."""
    whole = power_of_two(k)
    first = whole if whole == k else whole // 2
    rest = power_of_two(k - first) if k > first else 0
    columns = (first + rest) * (2 if gated else 1)
    block_n, most = 1, max(2, width // MIN_PROGRAMS)
    while 2 * block_n <= most and 2 * block_n * columns <= 8192:
        block_n *= 2
    if rest:  # no thread should load what another one loads
        return Plan("vector", block_n, first, max(1, min(4, block_n * rest // 256)))
    # With few outputs there are few programs, and the sums of many threads take less time.
    return Plan("vector", block_n, first, max(1, block_n * columns // (32 * PER_THREAD)) if width >= 3072 else 4)


def ahead_plan(rows: int, width: int, k: int, gated: bool) -> Plan | None:
    """Plans `ahead`: `None` if programs do not fit, or are too many. Each warp has 16 columns, or a multiple."""
    first = 1 << (k.bit_length() - 1)
    rest = k - first
    if rest & (rest - 1) or first < 128 or 0 < rest < 128:
        return None
    # Every program reads all rows: if these are many, a large matrix is cut for fewer programs.
    lines = 32 if rows > 8 and (gated or width * k >= 1 << 22) else 16
    block_n = lines // 2 if gated else lines
    used = (lines + min(power_of_two(rows, 8), 16)) * k * 2  # more rows than 16 are there in parts
    fit = min(4 if rows <= 8 else 2, SHARED_IN_ALL // (used + 1024))
    if width > block_n * fit * MULTIPROCESSORS * (WAVES if fit > 1 else 1):
        return None
    return Plan("ahead", block_n, first, 4 if rows <= 8 and k <= 1024 else 8)


@cache
def rows_plan(rows: int, width: int, k: int, gated: bool) -> Plan:
    if gated:
        plan = Plan("rows", 64, 64, 8, 5) if width >= 4096 and k > 1024 else Plan("rows", 32, 128, 8, 5)
    elif width >= 6144:
        plan = Plan("rows", 64, 64, 8, 6)
    elif width >= 3072 or (width >= 2048 and k <= 1024):
        plan = Plan("rows", 32, 256, 4, 4)
    elif width <= 1024 and rows <= 16:
        plan = Plan("rows", 8, 512, 2, 4)
    else:
        plan = Plan("rows", 16, 512, 2 if rows <= 16 else 4, 3)  # with more rows two warps would spill registers
    plan = plan._replace(block_k=min(plan.block_k, power_of_two(k, 16)))
    tile = (plan.block_n * (2 if gated else 1) + power_of_two(rows, 16)) * plan.block_k * 2
    return plan._replace(stages=max(1, min(plan.stages, SHARED // tile)))
