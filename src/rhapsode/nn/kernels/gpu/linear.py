"""Linear layers of small batches, whose time is the time to read the weights.

The number of rows selects one of two kernels:

- `_vector`, up to four rows: plain multiply-adds. A program loads a tile of weights, all columns of a few outputs, at
  once, 16 bytes per thread and load, and serves every row from registers. Enough programs fit a multiprocessor to have
  the whole matrix (a small one) or tens of kilobytes per multiprocessor (a large one) in flight. A sum never leaves its
  program: no split, no second pass.
- `_rows`, above four rows: tiles through shared memory into the tensor cores, the rows padded to 16 or more.

`_vector` also reads 8-bit weights: it converts them in registers, and multiplies the sums by the scales of their
outputs. For `_rows` that work would cost more than the bytes it saves.

In both kernels a row's result does not depend on the other rows nor on their number. Between the two kernels the order
of the sums differs.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.activation import silu_times
from rhapsode.nn.kernels.gpu.launch import options, power_of_two, reads_float8, wait_for_previous
from rhapsode.nn.kernels.gpu.norm import rms_scale, rounded_times
from rhapsode.nn.kernels.weight import Float8Weight, GpuWeight, Norm

VECTOR_ROWS = 4
"""Up to this many rows are served from registers."""

SHARED = 200 << 10
"""Bytes of a multiprocessor's shared memory that one program may use."""

MIN_PROGRAMS = 1024
"""Programs a launch should have: eight for each of an H200's 132 multiprocessors."""


# --- up to four rows ---


@triton.jit
def _tile(weight, outputs, K: tl.constexpr, BLOCK_K: tl.constexpr):
    """Loads the rows `outputs` of the weights, zero past the last column."""
    # Eight per thread and no more, so that 8-bit weights are in the same threads as the inputs they multiply.
    column = tl.max_contiguous(tl.arange(0, BLOCK_K), 8)[None, :]
    at = weight + outputs.to(tl.int64)[:, None] * K + column
    # Weights are read once: they should evict nothing else from the cache.
    if K == BLOCK_K:
        return tl.load(at, eviction_policy="evict_first")
    return tl.load(at, mask=column < K, other=0.0, eviction_policy="evict_first")


@triton.jit
def _vector(
    x, weight, scale, bias, norm_weight, residual, out, width, eps,
    ROWS: tl.constexpr, K: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NORM: tl.constexpr,
    GATED: tl.constexpr, SCALED: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    wanted = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    outputs = tl.minimum(wanted, width - 1)
    column = tl.arange(0, BLOCK_K)
    # The weights are in flight before anything waits for the previous kernel.
    tile = _tile(weight, outputs, K, BLOCK_K)
    if GATED:
        tile_up = _tile(weight, outputs + width, K, BLOCK_K)
    if NORM:
        norm_weights = tl.load(norm_weight + column, mask=column < K, other=0.0)
    if SCALED:
        scales = tl.load(scale + outputs)
        if GATED:
            scales_up = tl.load(scale + width + outputs)
    if BIAS:
        biases = tl.load(bias + outputs).to(tl.float32)
        if GATED:
            biases_up = tl.load(bias + width + outputs).to(tl.float32)
    wait_for_previous(OVERLAP)
    for row in tl.static_range(ROWS):
        if RESIDUAL:  # needed last, loaded first
            before = tl.load(residual + row * width + outputs)
        columns = tl.load(x + row * K + column, mask=column < K, other=0.0).to(tl.float32)
        if NORM:
            columns = rounded_times(columns * rms_scale(columns, K, eps), norm_weights).to(tl.float32)
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


# --- more rows ---


@triton.jit
def _row_scales(inputs, inside, at, eps, K: tl.constexpr, ROWS: tl.constexpr, BLOCK_K: tl.constexpr):
    """Returns the reciprocal root mean square of each row."""
    squares = tl.zeros((ROWS, BLOCK_K), tl.float32)
    for start in range(0, K, BLOCK_K):
        wide = tl.load(inputs + start, mask=inside & (start + at < K)[None, :], other=0.0).to(tl.float32)
        squares += wide * wide
    return tl.rsqrt(tl.sum(squares, axis=1) / K + eps)


@triton.jit(do_not_specialize=["rows"])
def _rows(
    x, weight, bias, norm_weight, residual, out, rows, width, eps,
    K: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NORM: tl.constexpr,
    GATED: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    outputs = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    known = outputs < width
    outputs = tl.minimum(outputs, width - 1)
    row = tl.arange(0, ROWS)
    inside, at = (row < rows)[:, None], tl.arange(0, BLOCK_K)
    inputs = x + row[:, None] * K + at[None, :]
    weights = weight + outputs.to(tl.int64)[:, None] * K + at[None, :]
    where = row[:, None] * width + outputs[None, :]
    stored = inside & known[None, :]
    wait_for_previous(OVERLAP)
    if RESIDUAL:
        before = tl.load(residual + where, mask=stored, other=0.0)
    if NORM:
        row_scales = _row_scales(inputs, inside, at, eps, K, ROWS, BLOCK_K)
    sums = tl.zeros((ROWS, BLOCK_N), tl.float32)
    sums_up = tl.zeros((ROWS, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        held = (start + at < K)[None, :]
        columns = tl.load(inputs + start, mask=inside & held, other=0.0)
        if NORM:
            norm_weights = tl.load(norm_weight + start + at, mask=start + at < K, other=0.0)[None, :]
            columns = rounded_times(columns.to(tl.float32) * row_scales[:, None], norm_weights)
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
    """Which kernel, and how it tiles the matrix."""

    kernel: Literal["vector", "rows"]
    block_n: int
    block_k: int
    warps: int = 4
    stages: int = 1


def plan_for(rows: int, width: int, k: int, gated: bool, dtype: torch.dtype) -> Plan:
    # Tensor cores have no float32: `_vector` serves it, however many rows.
    if rows <= VECTOR_ROWS or dtype == torch.float32:
        return _vector_plan(width, k, gated)
    return _rows_plan(rows, width, k, gated)


def _vector_plan(width: int, k: int, gated: bool) -> Plan:
    """64 weights per thread at once, and enough programs for every multiprocessor to have several."""
    block_k = power_of_two(k, 16)
    warps = 8 if gated and width * k >= 1 << 23 else 4
    block_n = max(1, 64 * 32 * warps // block_k // (2 if gated else 1))
    while block_n > 1 and width // block_n < MIN_PROGRAMS:
        block_n //= 2
    return Plan("vector", block_n, block_k, warps)


def _rows_plan(rows: int, width: int, k: int, gated: bool) -> Plan:
    """One program for most multiprocessors, with as many bytes in flight as its shared memory holds."""
    if gated or width >= 3072:
        plan = Plan("rows", 32, min(256, power_of_two(k, 16)), stages=3 if gated else 5)
    else:
        warps = 2 if rows <= 16 else 4  # with more rows two warps would spill registers
        plan = Plan("rows", 16, min(512, power_of_two(k, 16)), warps, stages=5)
    tile = (plan.block_n * (2 if gated else 1) + power_of_two(rows, 16)) * plan.block_k * 2
    return plan._replace(stages=min(plan.stages, SHARED // tile))


def supports(x: Tensor, weight: GpuWeight, residual: Tensor | None) -> bool:
    """Whether `small_batch_linear` takes these arguments."""
    if residual is not None and not residual.is_contiguous():
        return False
    if isinstance(weight, Float8Weight):
        return reads_float8() and x.numel() // x.shape[-1] <= VECTOR_ROWS
    return weight.is_contiguous() and x.dtype == weight.dtype


def small_batch_linear(
    x: Tensor,
    weight: GpuWeight,
    bias: Tensor | None = None,
    *,
    norm: Norm | None = None,
    gated: bool = False,
    residual: Tensor | None = None,
    plan: Plan | None = None,
) -> Tensor:
    """`fused_linear` of a small batch; benchmarks pass a `plan` to compare it with the default."""
    values, scales = (weight.values, weight.scales) if isinstance(weight, Float8Weight) else (weight, x)
    outputs, k = values.shape
    width = outputs // 2 if gated else outputs
    rows = x.numel() // k
    plan = plan or plan_for(rows, width, k, gated, x.dtype)
    out = x.new_empty(*x.shape[:-1], width)
    norm_weight, eps = norm or (x, 0.0)
    others = (x if bias is None else bias, norm_weight, x if residual is None else residual, out)
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
    programs = triton.cdiv(width, plan.block_n)
    if plan.kernel == "vector":
        _vector[(programs,)](x, values, scales, *others, width, eps, ROWS=rows, SCALED=scales is not x, **constants)
    else:
        _rows[(programs,)](x, values, *others, rows, width, eps, ROWS=power_of_two(rows, 16), **constants)
    return out
