"""A linear layer of a few dozen rows in two kernels; see `nn.kernels.split`.

A program of the first kernel has its whole share of the weights in flight before it waits for its input. Partial sums
are added in a fixed order, so a result does not depend on when programs run.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.ahead import load_inputs, load_weights, shared_product
from rhapsode.nn.kernels.gpu.launch import blocks, let_next_start, options, power_of_two, wait_for_previous
from rhapsode.nn.kernels.gpu.norm import rms_scale, rounded_times
from rhapsode.nn.kernels.weight import Norm

OUTPUTS = 32
"""Outputs of one program."""

WARPS = 4
"""Each warp of a program multiplies a part of the columns."""


@triton.jit(do_not_specialize=["rows"])
def _split_product(
    x, weight, parts, rows, width,
    K: tl.constexpr, SHARE: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, WARPS: tl.constexpr,
    PRECISION: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    let_next_start(OVERLAP)
    outputs = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    known = outputs < width
    share = tl.program_id(1)
    row = tl.arange(0, ROWS)
    tile = load_weights(weight + share * SHARE, tl.minimum(outputs, width - 1), 0, SHARE, K, WARPS)
    wait_for_previous(OVERLAP)
    columns = load_inputs(x + share * SHARE, rows, 0, SHARE, K, WARPS, ROWS)
    sums = tl.trans(shared_product(tile, columns, PRECISION))
    where = (share * rows + row)[:, None] * width + outputs[None, :]
    tl.store(parts + where, sums, mask=(row < rows)[:, None] & known[None, :])


def split_product(x: Tensor, weight: Tensor, share: int) -> Tensor:
    """Returns the partial sums `[K / share, rows, N]` of `x [rows, K]`; K is a multiple of `share`."""
    (rows, k), width = x.shape, len(weight)
    parts = torch.empty(k // share, rows, width, dtype=torch.float32, device=x.device)
    _split_product[(blocks(width, OUTPUTS), k // share)](
        x, weight, parts, rows, width,
        K=k, SHARE=share, ROWS=power_of_two(rows, 16), BLOCK_N=OUTPUTS, WARPS=WARPS,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32", num_warps=WARPS, **options(rows, rows),
    )  # fmt: skip
    return parts


@triton.jit
def add_parts(x, parts, row, rows, dim, at, inside, PARTS: tl.constexpr):
    """Adds the partial sums of a row to `x`, in place, and returns the rounded sum in float32."""
    held = tl.load(x + row * dim + at, mask=inside, other=0.0)
    wide = held.to(tl.float32)
    if PARTS > 0:
        for i in tl.static_range(PARTS):
            wide += tl.load(parts + (i * rows + row) * dim + at, mask=inside, other=0.0)
        held = wide.to(held.dtype)
        tl.store(x + row * dim + at, held, mask=inside)
        wide = held.to(tl.float32)
    return wide


@triton.jit(do_not_specialize=["rows"])
def _add_and_norm(
    x, parts, weight, out, rows, dim, eps,
    PARTS: tl.constexpr, NORM: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < dim
    if NORM:
        weights = tl.load(weight + at, mask=inside, other=0.0)
    wait_for_previous(OVERLAP)
    wide = add_parts(x, parts, row, rows, dim, at, inside, PARTS)
    if NORM:
        tl.store(out + row * dim + at, rounded_times(wide * rms_scale(wide, dim, eps), weights), mask=inside)


def add_and_norm(x: Tensor, parts: Tensor, norm: Norm | None) -> Tensor:
    dim = x.shape[-1]
    out = x if norm is None else torch.empty_like(x)
    block, rows = power_of_two(dim), x.numel() // dim
    _add_and_norm[(rows,)](
        x, parts, x if norm is None else norm.weight, out, rows, dim, 0.0 if norm is None else norm.eps,
        PARTS=len(parts), NORM=norm is not None, BLOCK=block, num_warps=min(8, max(1, block // 256)),
        **options(rows, rows),
    )  # fmt: skip
    return out
