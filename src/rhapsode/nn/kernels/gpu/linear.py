"""Linears of a few rows, where the weights' way from memory is all there is to pay for.

Two kernels, chosen by the number of rows:

- `_vector`, up to four: plain multiply-adds on a tile of weights, all columns of a few outputs, that is loaded in one
  go, 16 bytes a thread at a time, and serves every row from registers. Enough programs fit a multiprocessor that the
  whole matrix (the smaller ones) or tens of kilobytes for each multiprocessor (the larger ones) are on their way at
  once. A sum never leaves its program: no split, no second pass.
- `_rows`, for a few: tiles through shared memory into the tensor cores, the rows padded to 16 or more.

`_vector` takes 8-bit weights, too: they are widened in registers, and the sums multiplied by their outputs' scales. For
`_rows` that work is more than the bytes it saves.

In both, a row's result does not depend on the other rows nor on how many there are; between the two kernels it may
differ by the order of its sums.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.activation import silu_times
from rhapsode.nn.kernels.gpu.launch import after_predecessor, options, power_of_two, reads_float8
from rhapsode.nn.kernels.gpu.norm import rms_scale, rounded_times
from rhapsode.nn.quantised import Quantised, Weight

VECTOR_ROWS = 4
"""Up to so many rows are served from registers."""

SHARED = 200 << 10
"""Bytes of a multiprocessor's shared memory that one program may fill."""

LEAST_TILES = 1024
"""Programs a launch should have: eight for each of an H200's 132 multiprocessors."""


# --- up to four rows ---


@triton.jit
def _tile(weight, outputs, K: tl.constexpr, BLOCK_K: tl.constexpr):
    """Rows `outputs` of the weights, zero past the last column."""
    # Eight at a time and no more, so that 8-bit weights lie in the threads in which the rows they meet do.
    column = tl.max_contiguous(tl.arange(0, BLOCK_K), 8)[None, :]
    at = weight + outputs.to(tl.int64)[:, None] * K + column
    # Weights are read once: they should not push anything else out of the cache.
    if K == BLOCK_K:
        return tl.load(at, eviction_policy="evict_first")
    return tl.load(at, mask=column < K, other=0.0, eviction_policy="evict_first")


@triton.jit
def _vector(
    x,
    weight,
    scale,
    bias,
    gain,
    residual,
    out,
    width,
    eps,
    ROWS: tl.constexpr,
    K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    NORM: tl.constexpr,
    GATED: tl.constexpr,
    SCALED: tl.constexpr,
    BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    wanted = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    outputs = tl.minimum(wanted, width - 1)
    column = tl.arange(0, BLOCK_K)
    # The weights are on their way before anything waits for the predecessor.
    tile = _tile(weight, outputs, K, BLOCK_K)
    if GATED:
        tile_up = _tile(weight, outputs + width, K, BLOCK_K)
    if NORM:
        gains = tl.load(gain + column, mask=column < K, other=0.0)
    if SCALED:
        scales = tl.load(scale + outputs)
        if GATED:
            scales_up = tl.load(scale + width + outputs)
    if BIAS:
        biases = tl.load(bias + outputs).to(tl.float32)
        if GATED:
            biases_up = tl.load(bias + width + outputs).to(tl.float32)
    after_predecessor(OVERLAP)
    for row in tl.static_range(ROWS):
        if RESIDUAL:  # needed last, asked for first
            before = tl.load(residual + row * width + outputs)
        columns = tl.load(x + row * K + column, mask=column < K, other=0.0).to(tl.float32)
        if NORM:
            columns = rounded_times(columns * rms_scale(columns, K, eps), gains).to(tl.float32)
        result = tl.sum(tile.to(tl.float32) * columns[None, :], axis=1)
        if SCALED:
            result *= scales
        if BIAS:
            result += biases
        result = result.to(out.dtype.element_ty)
        if GATED:
            up = tl.sum(tile_up.to(tl.float32) * columns[None, :], axis=1)
            if SCALED:
                up *= scales_up
            if BIAS:
                up += biases_up
            result = silu_times(result, up.to(out.dtype.element_ty))
        if RESIDUAL:
            result = (before.to(tl.float32) + result.to(tl.float32)).to(before.dtype)
        tl.store(out + row * width + outputs, result, mask=wanted < width)


# --- a few ---


@triton.jit
def _row_norms(inputs, there, at, eps, K: tl.constexpr, ROWS: tl.constexpr, BLOCK_K: tl.constexpr):
    """What the rows are multiplied by to be normed."""
    squares = tl.zeros((ROWS, BLOCK_K), tl.float32)
    for start in range(0, K, BLOCK_K):
        wide = tl.load(inputs + start, mask=there & (start + at < K)[None, :], other=0.0).to(tl.float32)
        squares += wide * wide
    return tl.rsqrt(tl.sum(squares, axis=1) / K + eps)


@triton.jit(do_not_specialize=["rows"])
def _rows(
    x,
    weight,
    bias,
    gain,
    residual,
    out,
    rows,
    width,
    eps,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    NORM: tl.constexpr,
    GATED: tl.constexpr,
    BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    outputs = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = outputs < width
    outputs = tl.minimum(outputs, width - 1)
    row = tl.arange(0, ROWS)
    there, at = (row < rows)[:, None], tl.arange(0, BLOCK_K)
    inputs = x + row[:, None] * K + at[None, :]
    weights = weight + outputs.to(tl.int64)[:, None] * K + at[None, :]
    where = row[:, None] * width + outputs[None, :]
    stored = there & inside[None, :]
    after_predecessor(OVERLAP)
    if RESIDUAL:
        before = tl.load(residual + where, mask=stored, other=0.0)
    if NORM:
        norms = _row_norms(inputs, there, at, eps, K, ROWS, BLOCK_K)
    sums = tl.zeros((ROWS, BLOCK_N), tl.float32)
    sums_up = tl.zeros((ROWS, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        held = (start + at < K)[None, :]
        columns = tl.load(inputs + start, mask=there & held, other=0.0)
        if NORM:
            gains = tl.load(gain + start + at, mask=start + at < K, other=0.0)[None, :]
            columns = rounded_times(columns.to(tl.float32) * norms[:, None], gains)
        tile = tl.load(weights + start, mask=held, other=0.0, eviction_policy="evict_first")
        sums = tl.dot(columns, tile.T, sums)
        if GATED:
            tile_up = tl.load(
                weights + width.to(tl.int64) * K + start, mask=held, other=0.0, eviction_policy="evict_first"
            )
            sums_up = tl.dot(columns, tile_up.T, sums_up)
    if BIAS:
        sums += tl.load(bias + outputs).to(tl.float32)[None, :]
        if GATED:
            sums_up += tl.load(bias + width + outputs).to(tl.float32)[None, :]
    result = sums.to(out.dtype.element_ty)
    if GATED:
        result = silu_times(result, sums_up.to(out.dtype.element_ty))
    if RESIDUAL:
        result = (before.to(tl.float32) + result.to(tl.float32)).to(before.dtype)
    tl.store(out + where, result, mask=stored)


# --- launching ---


class Plan(NamedTuple):
    """Which kernel, and how it cuts a matrix up."""

    kernel: Literal["vector", "rows"]
    block_n: int
    block_k: int
    warps: int = 4
    stages: int = 1


def plan_for(rows: int, width: int, k: int, gated: bool, dtype: torch.dtype) -> Plan:
    # Tensor cores have no float32: that goes row by row.
    if rows <= VECTOR_ROWS or dtype == torch.float32:
        return _vector_plan(width, k, gated)
    return _rows_plan(rows, width, k, gated)


def _vector_plan(width: int, k: int, gated: bool) -> Plan:
    """64 weights a thread in one go, and enough programs for every multiprocessor to have several."""
    block_k = power_of_two(k, 16)
    warps = 8 if gated and width * k >= 1 << 23 else 4
    block_n = max(1, 64 * 32 * warps // block_k // (2 if gated else 1))
    while block_n > 1 and width // block_n < LEAST_TILES:
        block_n //= 2
    return Plan("vector", block_n, block_k, warps)


def _rows_plan(rows: int, width: int, k: int, gated: bool) -> Plan:
    """A program for most multiprocessors, and as much on its way to each as its shared memory takes."""
    if gated or width >= 3072:
        plan = Plan("rows", 32, min(256, power_of_two(k, 16)), stages=3 if gated else 5)
    else:
        warps = 2 if rows <= 16 else 4  # two would spill the rows they norm
        plan = Plan("rows", 16, min(512, power_of_two(k, 16)), warps, stages=5)
    tile = (plan.block_n * (2 if gated else 1) + power_of_two(rows, 16)) * plan.block_k * 2
    return plan._replace(stages=min(plan.stages, SHARED // tile))


def serves(x: Tensor, weight: Weight, residual: Tensor | None) -> bool:
    """Whether `skinny` can do this."""
    if residual is not None and not residual.is_contiguous():
        return False
    if isinstance(weight, Quantised):
        return reads_float8() and x.numel() // x.shape[-1] <= VECTOR_ROWS
    return weight.is_contiguous() and x.dtype == weight.dtype


def skinny(
    x: Tensor,
    weight: Weight,
    bias: Tensor | None = None,
    *,
    norm: tuple[Tensor, float] | None = None,
    gated: bool = False,
    residual: Tensor | None = None,
    plan: Plan | None = None,
) -> Tensor:
    """`fused_linear` of a few rows; `plan` is for those who look for a better one."""
    values, scales = (weight.values, weight.scales) if isinstance(weight, Quantised) else (weight, x)
    outputs, k = values.shape
    width = outputs // 2 if gated else outputs
    rows = x.numel() // k
    plan = plan or plan_for(rows, width, k, gated, x.dtype)
    out = x.new_empty(*x.shape[:-1], width)
    gain, eps = norm or (x, 0.0)
    others = (x if bias is None else bias, gain, x if residual is None else residual, out)
    constants = {
        "K": k,
        "BLOCK_N": plan.block_n,
        "BLOCK_K": plan.block_k,
        "NORM": norm is not None,
        "GATED": gated,
        "BIAS": bias is not None,
        "RESIDUAL": residual is not None,
        "num_warps": plan.warps,
        "num_stages": plan.stages,
        **options(rows),
    }
    tiles = triton.cdiv(width, plan.block_n)
    if plan.kernel == "vector":
        _vector[(tiles,)](x, values, scales, *others, width, eps, ROWS=rows, SCALED=scales is not x, **constants)
    else:
        _rows[(tiles,)](x, values, *others, rows, width, eps, ROWS=power_of_two(rows, 16), **constants)
    return out
