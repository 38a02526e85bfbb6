"""Linear layers of 2 to 32 rows that load all their weights before their input is ready.

A program has the weights of a few outputs, all columns of them. It loads them into shared memory, and then waits for
the previous kernel: the work after that is short. Each warp multiplies a share of the columns in the tensor cores,
weights on the left, so that 8 rows need no padding; the shares are added in their order. With the same plan, a row's
result depends neither on the other rows nor on their number.

Weights of 8 bits are multiplied as float16, which has all their values.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.activation import silu_times
from rhapsode.nn.kernels.gpu.launch import blocks, let_next_start, options, power_of_two, wait_for_previous
from rhapsode.nn.kernels.gpu.linear_plan import Plan
from rhapsode.nn.kernels.gpu.norm import rounded_times
from rhapsode.nn.kernels.weight import Float8Weight, GpuWeight, Norm


@triton.jit
def load_weights(weight, outputs, FIRST: tl.constexpr, BLOCK: tl.constexpr, K: tl.constexpr, SHARES: tl.constexpr):
    """Loads a block of a weight matrix: its rows `outputs [N]`, and `BLOCK` columns from column `FIRST` on.

    The columns are cut into shares: [SHARES, N, BLOCK / SHARES].
    """
    share, column = tl.arange(0, SHARES)[:, None, None], tl.arange(0, BLOCK // SHARES)[None, None, :]
    at = outputs.to(tl.int64)[None, :, None] * K + FIRST + share * (BLOCK // SHARES) + column
    return tl.load(weight + at, eviction_policy="evict_first")


@triton.jit
def _gains(weight, FIRST: tl.constexpr, BLOCK: tl.constexpr, SHARES: tl.constexpr):
    share, column = tl.arange(0, SHARES)[:, None, None], tl.arange(0, BLOCK // SHARES)[None, None, :]
    return tl.load(weight + FIRST + share * (BLOCK // SHARES) + column)


@triton.jit
def load_inputs(
    x, rows, FIRST: tl.constexpr, BLOCK: tl.constexpr, K: tl.constexpr, SHARES: tl.constexpr, ROWS: tl.constexpr
):
    """Loads the inputs that these weights multiply, of all rows: [SHARES, ROWS, BLOCK / SHARES]."""
    share, column = tl.arange(0, SHARES)[:, None, None], tl.arange(0, BLOCK // SHARES)[None, None, :]
    row = tl.arange(0, ROWS)[None, :, None]
    return tl.load(x + row * K + FIRST + share * (BLOCK // SHARES) + column, mask=row < rows, other=0.0)


@triton.jit
def _squares(x):
    wide = x.to(tl.float32)
    # The order of a plain sum over shares would depend on the number of rows.
    return tl.reshape(add_up(tl.sum(wide * wide, axis=2)[:, :, None]), (x.shape[1],))


@triton.jit
def _add_pairs(x):
    one, other = tl.split(tl.reshape(x, (x.shape[0], x.shape[1], x.shape[2] // 2, 2)))
    return one + other


@triton.jit
def add_up(x):
    """Adds up the first axis of `x [S, N, ROWS]`, pairs first: [N, ROWS]."""
    # A plain sum over warps takes a round through shared memory per element; this takes one for all.
    shares: tl.constexpr = x.shape[0]
    x = tl.permute(x, (1, 2, 0))
    if shares >= 8:
        x = _add_pairs(x)
    if shares >= 4:
        x = _add_pairs(x)
    one, other = tl.split(x)
    return one + other


@triton.jit
def shared_product(tile, x, PRECISION: tl.constexpr):
    """Returns `tile [S, N, C]` times `x [S, ROWS, C]`, added up over S: [N, ROWS]."""
    return add_up(tl.dot(tile, tl.permute(x, (0, 2, 1)), input_precision=PRECISION))


@triton.jit(do_not_specialize=["rows"])
def _ahead(
    x, weight, scale, norm_weight, residual, out, rows, width, eps,
    K: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, REST: tl.constexpr,
    SHARES: tl.constexpr, NORM: tl.constexpr, GATED: tl.constexpr, RESIDUAL: tl.constexpr, SCALED: tl.constexpr,
    PRECISION: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    let_next_start(OVERLAP)
    first = tl.program_id(0) * BLOCK_N
    lines: tl.constexpr = 2 * BLOCK_N if GATED else BLOCK_N  # gates, then values
    line = tl.arange(0, lines)
    sources = tl.minimum(first + line % BLOCK_N, width - 1) + line // BLOCK_N * width
    tile = load_weights(weight, sources, 0, BLOCK_K, K, SHARES)
    tile_rest = load_weights(weight, sources, BLOCK_K, REST, K, SHARES) if REST > 0 else tile
    if SCALED:
        scales = tl.load(scale + sources)[:, None]
    if NORM:
        gain = _gains(norm_weight, 0, BLOCK_K, SHARES)
        gain_rest = _gains(norm_weight, BLOCK_K, REST, SHARES) if REST > 0 else gain
    wait_for_previous(OVERLAP)
    row, output = tl.arange(0, ROWS)[None, :], (first + tl.arange(0, BLOCK_N))[:, None]
    where, stored = row * width + output, (row < rows) & (output < width)
    if RESIDUAL:
        before = tl.load(residual + where, mask=stored, other=0.0)
    columns = load_inputs(x, rows, 0, BLOCK_K, K, SHARES, ROWS)
    columns_rest = load_inputs(x, rows, BLOCK_K, REST, K, SHARES, ROWS) if REST > 0 else columns
    if NORM:
        squares = _squares(columns)
        if REST > 0:
            squares += _squares(columns_rest)
        row_scales = tl.rsqrt(squares / K + eps)[None, :, None]
        columns = rounded_times(columns.to(tl.float32) * row_scales, gain)
        if REST > 0:
            columns_rest = rounded_times(columns_rest.to(tl.float32) * row_scales, gain_rest)
    if SCALED:
        # One instruction makes two weights float16; bfloat16 takes five. Inputs become smaller to be in its range.
        tile, columns = tile.to(tl.float16), (columns.to(tl.float32) / 64).to(tl.float16)
        if REST > 0:
            tile_rest, columns_rest = tile_rest.to(tl.float16), (columns_rest.to(tl.float32) / 64).to(tl.float16)
    sums = shared_product(tile, columns, PRECISION)
    if REST > 0:
        sums += shared_product(tile_rest, columns_rest, PRECISION)
    if SCALED:
        sums *= scales * 64
    result = sums.to(out.dtype.element_ty)
    if GATED:
        gate, up = tl.split(tl.permute(tl.reshape(result, (2, BLOCK_N, ROWS)), (1, 2, 0)))
        result = silu_times(gate, up)
    if RESIDUAL:
        result = (before.to(tl.float32) + result.to(tl.float32)).to(before.dtype)
    tl.store(out + where, result, mask=stored)


def ahead_linear(
    x: Tensor,
    weight: GpuWeight,
    plan: Plan,
    norm: Norm | None = None,
    gated: bool = False,
    residual: Tensor | None = None,
) -> Tensor:
    """Does what `fused_linear` does, for a contiguous `x [..., K]`, with an RMS norm or none."""
    eight_bits = isinstance(weight, Float8Weight)
    values, scales = (weight.values, weight.scales) if isinstance(weight, Float8Weight) else (weight, x)
    outputs, k = values.shape
    width = outputs // 2 if gated else outputs
    rows = x.numel() // k
    out = x.new_empty(*x.shape[:-1], width)
    _ahead[(blocks(width, plan.block_n),)](
        x, values, scales, x if norm is None else norm.weight, x if residual is None else residual, out,
        rows, width, 0.0 if norm is None else norm.eps,
        K=k, ROWS=power_of_two(rows, 8), BLOCK_N=plan.block_n, BLOCK_K=plan.block_k, REST=k - plan.block_k,
        SHARES=plan.warps, NORM=norm is not None, GATED=gated, RESIDUAL=residual is not None, SCALED=eight_bits,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32", num_warps=plan.warps, **options(rows, rows),
    )  # fmt: skip
    return out
