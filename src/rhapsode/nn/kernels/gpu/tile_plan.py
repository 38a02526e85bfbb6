"""How a product of many rows by 8-bit weights is cut into tiles: from sweeps on an H200 (docs/speed-notes.md)."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from rhapsode.nn.kernels.gpu.launch import MULTIPROCESSORS, power_of_two, shared_memory

MOST_SHARES = 8
ENOUGH_PROGRAMS = 96
"""With fewer, sums are cut into shares: most multiprocessors then have a program."""
LONG_SUM = 2048
"""Where a share has more inputs, twice as many programs are wanted."""
MOST_SMALL_ROWS = 256
"""Of products that are cut into shares. With more rows they have large tiles, and are not cut."""


class TilePlan(NamedTuple):
    """The tile of one program, and into how many shares the inputs are cut."""

    lines: int
    """Rows of the weights: a gated layer has two for each output."""
    rows: int
    block_k: int
    warps: int
    stages: int
    shares: int = 1


@cache
def tile_plan(rows: int, width: int, k: int, gated: bool, may_share: bool) -> TilePlan:
    """`may_share`: the caller adds up partial sums.

    Programs run in waves, as many at once as there is shared memory for, and the last wave takes as long as the others.
    So a tile is good if its last wave is nearly full: small tiles unless large ones need fewer waves.
    """
    few = 32 if may_share else 64
    tall, block_k = min(power_of_two(rows, 16), 32 if rows <= few else 64), min(128, power_of_two(k, 32))
    small = TilePlan(64, tall, block_k, warps=4, stages=3)
    large = TilePlan(128, tall, block_k, warps=8, stages=3)
    if may_share:
        plan = large if rows > MOST_SMALL_ROWS else _in_shares(small, rows, width, k)
    else:
        plan = min(small, large, key=lambda plan: _waves(plan, _programs(plan, rows, width, gated)))
    deeper = plan._replace(stages=4)
    programs = _programs(plan, rows, width, gated) * plan.shares
    plan = deeper if _waves(deeper, programs) == 1 else plan
    return plan._replace(stages=max(1, min(plan.stages, shared_memory() // _stage_bytes(plan))))


def _programs(plan: TilePlan, rows: int, width: int, gated: bool) -> int:
    return -(-rows // plan.rows) * -(-width // (plan.lines // 2 if gated else plan.lines))


def _waves(plan: TilePlan, programs: int) -> int:
    at_once = MULTIPROCESSORS * max(1, shared_memory() // (_stage_bytes(plan) * plan.stages))
    return -(-programs // at_once)


def _stage_bytes(plan: TilePlan) -> int:
    return (plan.lines + 2 * plan.rows) * plan.block_k


def _in_shares(plan: TilePlan, rows: int, width: int, k: int) -> TilePlan:
    """With as many shares as give every multiprocessor work: one program, or two where their sums are long."""
    programs, shares = _programs(plan, rows, width, False), 1
    while shares < MOST_SHARES and k % (2 * shares * plan.block_k) == 0:
        if programs * shares >= ENOUGH_PROGRAMS * (2 if k // shares > LONG_SUM else 1):
            break
        shares *= 2
    return plan._replace(shares=shares)
