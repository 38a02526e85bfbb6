"""Cuts a product of many rows by 8-bit weights into tiles, by sweeps on an H200 (docs/speed-notes.md)."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from rhapsode.nn.kernels.gpu.launch import MULTIPROCESSORS, power_of_two, shared_memory

MOST_SHARES = 8
ENOUGH_PROGRAMS = 96
"""A product with fewer programs is cut into shares, so that most multiprocessors have work."""
LONG_SUM = 2048
"""If a share has more inputs than this, twice as many programs are wanted."""
MOST_ROWS_IN_SHARES = 256
"""With more rows, a product has large tiles and is not cut into shares."""


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
    """Returns the plan of a product of `rows` rows with `k` inputs and `width` outputs.

    `may_share`: the caller can add up partial sums.

    A multiprocessor runs as many programs at once as fit its shared memory. More programs than all of them run at once
    need a second wave, which takes as long as the first even if it is nearly empty. So the tile with fewer waves is
    taken; if both have as many, the small one.
    """
    few = 32 if may_share else 64
    tall, block_k = min(power_of_two(rows, 16), 32 if rows <= few else 64), min(128, power_of_two(k, 32))
    small = TilePlan(64, tall, block_k, warps=4, stages=3)
    large = TilePlan(128, tall, block_k, warps=8, stages=3)
    if may_share:
        plan = large if rows > MOST_ROWS_IN_SHARES else _in_shares(small, rows, width, k)
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
    """Returns the plan with enough shares that most multiprocessors have a program, or two if the sums are long."""
    programs, shares = _programs(plan, rows, width, False), 1
    while shares < MOST_SHARES and k % (2 * shares * plan.block_k) == 0:
        if programs * shares >= ENOUGH_PROGRAMS * (2 if k // shares > LONG_SUM else 1):
            break
        shares *= 2
    return plan._replace(shares=shares)
