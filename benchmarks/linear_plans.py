"""Searches for the best tile sizes of the small-batch linears on a GPU, at the shapes of several families.

    python benchmarks/linear_plans.py --rows 4 8 16 [--only fish]

Kernels are compiled by many processes first, and then timed by one. Times are microseconds of one call inside a CUDA
graph of many, each with weights of its own; terabytes a second are in brackets. "now" is the plan in use. The best ones
follow, as (outputs, inputs, warps, stages) of a program: `v` is from registers, `a` is `ahead`, `+` overlaps. "split"
is the product in shares and the sum of them with the residual, the next norm included, which the others do not have.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch
from kernels import BANDWIDTH, LINEARS, Linear, graph_us
from torch import Tensor

from rhapsode.nn.kernels.gpu import launch
from rhapsode.nn.kernels.gpu.launch import overlap, power_of_two
from rhapsode.nn.kernels.gpu.linear import small_batch_linear
from rhapsode.nn.kernels.gpu.linear_plan import Plan, ahead_plan, plan_for, vector_plan
from rhapsode.nn.kernels.split import MAX_ROWS, SHARE, add_and_norm, split_product
from rhapsode.nn.kernels.weight import Norm

LINEARS |= {  # the same sizes: Fish S2-Pro and Higgs TTS v3
    "fish qkv": (6144, 2560, {"norm"}),
    "fish o": (2560, 4096, {"residual"}),
    "fish gate_up": (19456, 2560, {"norm", "gated"}),
    "fish down": (2560, 9728, {"residual"}),
    "fish head": (4096, 2560, {"norm"}),
    "vox qkv": (2560, 1024, {"norm"}),  # VoxCPM2's LocDiT: 22 rows at batch 1; its LocEnc: 5
    "vox o": (1024, 2048, {"residual"}),
    "vox gate_up": (8192, 1024, {"norm", "gated"}),
    "vox down": (1024, 4096, {"residual"}),
    "dit qkv": (2560, 1024, set()),  # its norm is a launch of its own
    "dit gate_up": (8192, 1024, {"gated"}),
}
SHARED_BUDGETS = (66 << 10, 100 << 10, 200 << 10)
"""Bytes of shared memory of one program: three, two or one of them fit a multiprocessor."""
TILES = [
    *itertools.product((8,), (256, 512), (2, 4)),
    *itertools.product((16,), (256, 512), (2, 4)),
    *itertools.product((32,), (128, 256), (2, 4, 8)),
    *itertools.product((64,), (64, 128), (4, 8)),
]
"""Outputs, inputs and warps of a program."""
Case = tuple[str, int, Plan, bool]
"""A linear layer, rows, a plan, and whether launches overlap."""


def cases(name: str, rows: int) -> Iterator[Case]:
    n, k, fused = LINEARS[name]
    tiles = 2 if "gated" in fused else 1
    if rows <= 2:
        usual = vector_plan(n // tiles, k, tiles == 2)
        for block_n, warps in itertools.product((1, 2, 4, 8), (1, 2, 4, 8)):
            if 24 <= block_n * tiles * k // (32 * warps) <= 128:
                yield name, rows, usual._replace(block_n=block_n, warps=warps), True
    for (block_n, block_k, warps), budget in itertools.product(TILES, SHARED_BUDGETS):
        stages = min(8, budget // ((block_n * tiles + power_of_two(rows, 16)) * block_k * 2))
        if stages >= 2 and block_k <= k:
            for early in (False, True) if budget < SHARED_BUDGETS[-1] else (False,):
                yield name, rows, Plan("rows", block_n, block_k, warps, stages), early
    first = 1 << (k.bit_length() - 1)
    for lines, warps in itertools.product((16, 32), (4, 8)):
        if rows > 1 and lines * k <= 8192 * warps and (lines + power_of_two(rows, 8)) * k * 2 <= SHARED_BUDGETS[-1]:
            yield name, rows, Plan("ahead", lines // tiles, first, warps), True


def compile_case(case: Case) -> None:
    name, rows, plan, early = case
    with torch.inference_mode(), overlap(early):
        Linear(name, copies=1).call(rows, small_batch_linear, plan=plan)(0)


def compile_all(compile_one: Callable[[Any], None], work: Iterable[Any]) -> None:
    """Compiles all cases in many processes."""
    # Batches of cases go to one process each: the context of the GPU is made once.
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        list(pool.map(compile_one, work, chunksize=8))


def split(x: Tensor, weight: Tensor, residual: Tensor, **_: object) -> Tensor:
    return add_and_norm(residual, split_product(x, weight), Norm(residual[0], 1e-6))


def time_plans(name: str, rows: int) -> None:
    linear = Linear(name)
    gated = "gated" in linear.fused

    def took(plan: Plan) -> str:
        us = graph_us(linear.call(rows, small_batch_linear, plan=plan), linear.copies, replays=4)
        text = f"{us:5.2f} ({linear.bytes / us / 1e6:.2f}) {plan[1:]}{plan.kernel[0].strip('r')}"
        return text + "+" * (launch.options(rows)["OVERLAP"] > 0)

    results = []
    for _, _, plan, early in dict.fromkeys(cases(name, rows)):
        with overlap(early):
            try:
                results.append(took(plan))
            except Exception as error:
                print(f"  {name} {plan}: {type(error).__name__}: {str(error)[:80]}")
    wide = ahead_plan(rows, linear.width, linear.k, gated) if rows > 16 else None
    text = f"  {name:18s} {rows:2d} rows, floor {linear.bytes / BANDWIDTH * 1e6:5.2f}: now"
    text += f" {took(wide or plan_for(rows, linear.width, linear.k, gated, torch.bfloat16))}"
    text = "; ".join((text, *sorted(results)[:3]))
    if "residual" in linear.fused and linear.k % SHARE == 0 and rows <= MAX_ROWS:
        text += f"; split {graph_us(linear.call(rows, split), linear.copies, replays=4):.2f}"
    print(text, flush=True)


@torch.inference_mode()
def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, nargs="+", default=[8])
    arguments.add_argument("--only", default="", help="linears whose name contains this")
    given = arguments.parse_args()
    names = [name for name in LINEARS if given.only in name]
    started = time.monotonic()
    # In tiles, rows are padded to 16 or 32: one compilation serves them all.
    several = {(min(rows, 3), power_of_two(rows, 16)): rows for rows in given.rows}.values()
    compile_all(compile_case, [case for name in names for rows in several for case in dict.fromkeys(cases(name, rows))])
    print(f"compiled after {time.monotonic() - started:.0f} s", flush=True)
    for name, rows in itertools.product(names, given.rows):
        time_plans(name, rows)
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
