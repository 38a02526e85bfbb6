"""How a product of many rows by 8-bit weights is cut into tiles: from sweeps on an H200 (docs/speed-notes.md)."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from rhapsode.nn.kernels.gpu.launch import power_of_two, shared_memory

MOST_SHARES = 8
ENOUGH_PROGRAMS = 128
"""About as many as an H200 has multiprocessors."""


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
    """`may_share`: the caller adds up partial sums."""
    tall, block_k = min(power_of_two(rows, 16), 64), min(128, power_of_two(k, 32))
    plan = TilePlan(128, tall, block_k, warps=8, stages=3)
    if _programs(plan, rows, width, gated) < 1.25 * ENOUGH_PROGRAMS and not (may_share and rows > 256):
        plan = TilePlan(64, tall, block_k, warps=4, stages=4)
    stage = (plan.lines + 2 * plan.rows) * block_k
    plan = plan._replace(stages=max(1, min(plan.stages, shared_memory() // stage)))
    return plan._replace(shares=_shares(_programs(plan, rows, width, gated), k, block_k)) if may_share else plan


def _programs(plan: TilePlan, rows: int, width: int, gated: bool) -> int:
    return -(-rows // plan.rows) * -(-width // (plan.lines // 2 if gated else plan.lines))


def _shares(programs: int, k: int, block_k: int) -> int:
    """As many as give every multiprocessor work: one program, or two where their sums are long."""
    shares = 1
    while shares < MOST_SHARES and k % (2 * shares * block_k) == 0:
        wanted = ENOUGH_PROGRAMS * (2 if k // shares > 1024 else 1)
        if programs * shares >= wanted:
            break
        shares *= 2
    return shares
