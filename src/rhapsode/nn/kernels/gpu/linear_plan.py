"""Which kernel multiplies a small batch by a matrix, and how it tiles the matrix: from sweeps on an H200.

`benchmarks/linear_plans.py` compares the plans.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch

from rhapsode.nn.kernels.gpu.launch import power_of_two

MOST_NUMBERS = {1: 1 << 40, 2: 1 << 24, 3: 1 << 22, 4: 1 << 22}
"""By rows: how large a matrix may be whose rows are served from registers."""

MOST_VECTOR_ROWS = max(MOST_NUMBERS)

SHARED = 112 << 10
"""Bytes of a multiprocessor's shared memory that one program may use."""

MIN_PROGRAMS = 1024
"""Programs a launch should have: eight for each of an H200's 132 multiprocessors."""


OVERLAP_NUMBERS = 9 << 20
"""Launches with matrices of at most so many numbers overlap with any small batch: Qwen3-TTS at 8 rows 4.35 to 4.10 ms.

Larger ones do not gain: Fish S2-Pro, all of whose matrices are larger, took 7.00 ms instead of 6.44."""


class Plan(NamedTuple):
    """Which kernel, and how it tiles the matrix."""

    kernel: Literal["vector", "rows"]
    block_n: int
    block_k: int
    warps: int = 4
    stages: int = 1


def plan_for(rows: int, width: int, k: int, gated: bool, dtype: torch.dtype) -> Plan:
    few = width * k * (2 if gated else 1) < MOST_NUMBERS.get(rows, 0)
    # Tensor cores have no float32: `_vector` serves it, however many rows.
    return vector_plan(width, k, gated) if few or dtype == torch.float32 else rows_plan(rows, width, k, gated)


def vector_plan(width: int, k: int, gated: bool) -> Plan:
    """64 weights per thread at once, and enough programs for every multiprocessor to have several."""
    whole = power_of_two(k)
    first = whole if whole == k else whole // 2
    rest = power_of_two(k - first) if k > first else 0
    columns = first + rest
    warps = 8 if gated and width * k >= 1 << 23 else 4
    block_n = 1
    while 2 * block_n * columns * (2 if gated else 1) <= 64 * 32 * warps and width // block_n >= 2 * MIN_PROGRAMS:
        block_n *= 2
    # No thread should load what another one loads.
    return Plan("vector", block_n, first, max(1, min(warps, block_n * rest // 256)) if rest else warps)


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
