"""Searches for the best tiles of the products of many rows by 8-bit weights on a GPU.

    python benchmarks/tile_plans.py --rows 256 512 2048 [--only talker]

Kernels are compiled by many processes first, and then timed by one. Times are microseconds of one call inside a CUDA
graph of many, each with weights of its own. "bf16" is the product alone by cuBLAS, "now" the plan in use. The best ones
follow, as (rows of the weights, rows, inputs, warps, stages, shares) of a program. The input is converted already; the
sum of shares is not included.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator

import torch
from kernels import LINEARS, Call, graph_us, random
from linear_plans import compile_all

from rhapsode.nn.kernels.gpu import float8
from rhapsode.nn.kernels.gpu.float8_input import float8_input
from rhapsode.nn.kernels.gpu.launch import shared_memory
from rhapsode.nn.kernels.gpu.tile_plan import TilePlan, tile_plan
from rhapsode.nn.kernels.weight import FLOAT8, Float8Weight

NAMES = [name for name in LINEARS if "head" not in name]
TILES = [(64, 32, 4), (64, 64, 4), (64, 128, 4), (128, 128, 8), *itertools.product((128,), (32, 64), (4, 8))]
"""Rows of the weights, rows of the input, and warps of a program."""
BLOCK_K = 128
Case = tuple[str, int, TilePlan]


class Product:
    """One of the linear layers with 8-bit weights, and several copies of them."""

    def __init__(self, name: str, copies: int = 4) -> None:
        self.n, self.k, fused = LINEARS[name]
        self.is_gated, self.is_shared = "gated" in fused, "residual" in fused
        self.width = self.n // 2 if self.is_gated else self.n
        self.wide = [random(self.n, self.k, scale=self.k**-0.5) for _ in range(copies)]
        self.weights = [Float8Weight(w.to(FLOAT8), random(self.n, dtype=torch.float32)) for w in self.wide]

    def plan(self, rows: int) -> TilePlan:
        return tile_plan(rows, self.width, self.k, self.is_gated, self.is_shared)

    def call(self, rows: int, plan: TilePlan) -> Call:
        x = float8_input(random(rows, self.k))
        out = random(rows, self.width)
        residual = out if self.is_shared and plan.shares == 1 else None
        if plan.shares > 1:
            out = random(plan.shares, rows, self.width, dtype=torch.float32)
        return lambda i: float8._launch(x, self.weights[i], out, plan, gated=self.is_gated, residual=residual)

    def call_wide(self, rows: int) -> Call:
        x = random(rows, self.k)
        return lambda i: torch.nn.functional.linear(x, self.wide[i])


def cases(name: str, rows: int) -> Iterator[Case]:
    k, is_shared = LINEARS[name][1], "residual" in LINEARS[name][2]
    for lines, tall, warps in TILES:
        most = min(6, shared_memory() // ((lines + 2 * tall) * BLOCK_K))
        shares = (1, 2, 4) if is_shared and rows <= 512 else (1,)
        for stages, share in itertools.product({2, most, min(most, 3), min(most, 4)}, shares):
            if stages >= 2 and k % (share * BLOCK_K) == 0:
                yield name, rows, TilePlan(lines, tall, BLOCK_K, warps, stages, share)


def compile_case(case: Case) -> None:
    name, rows, plan = case
    with torch.inference_mode():
        Product(name, copies=1).call(rows, plan)(0)


def time_plans(name: str, rows: int) -> None:
    product, results = Product(name), []

    def took(plan: TilePlan) -> tuple[float, str]:
        us = graph_us(product.call(rows, plan), len(product.weights), replays=4)
        return us, f"{us:.1f} {tuple(plan)}"

    for _, _, plan in cases(name, rows):
        try:
            results.append(took(plan))
        except Exception as error:
            print(f"  {name} {plan}: {type(error).__name__}: {str(error)[:80]}")
    wide_us = graph_us(product.call_wide(rows), len(product.wide), replays=4)
    best = "; ".join(text for _, text in sorted(results)[:4])
    print(f"  {name:18s} {rows:4d} rows: bf16 {wide_us:.1f}; now {took(product.plan(rows))[1]}; {best}", flush=True)


@torch.inference_mode()
def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, nargs="+", default=[512])
    arguments.add_argument("--only", default="talker", help="linears whose name contains this")
    given = arguments.parse_args()
    names = [name for name in NAMES if given.only in name]
    started = time.monotonic()
    work = [case for name in names for rows in given.rows for case in cases(name, rows)]
    # One compilation serves all numbers of rows whose sums are as exact.
    several = {(name, plan, rows <= float8.EXACT_ROWS): (name, rows, plan) for name, rows, plan in work}
    compile_all(compile_case, several.values())
    print(f"{len(several)} plans compiled after {time.monotonic() - started:.0f} s", flush=True)
    for name, rows in itertools.product(names, given.rows):
        time_plans(name, rows)
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
