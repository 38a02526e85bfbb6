"""Linear layers of small batches, whose time is that of reading the weights.

The number of rows selects one of two kernels:

- `_vector`, for one or two rows, or up to four with a small matrix: plain multiply-adds. A program loads a tile of
  weights, all columns of a few outputs, at once, 16 bytes per thread and load, and uses it for every row from
  registers. Enough programs fit a multiprocessor to have the whole matrix (a small one) or tens of kilobytes per
  multiprocessor (a large one) in flight. A sum never leaves its program: no split, no second pass. Blocks are powers of
  two; if the number of columns is not a power of two, a row is two blocks: a full one, and the rest.
- `_rows`, for more rows: tiles through shared memory into the tensor cores, the rows padded to 16 or more. Two programs
  fit a multiprocessor: the number of programs is seldom a multiple of the multiprocessors, and those with two programs
  then read twice as fast as those with one.

`_vector` also reads 8-bit weights: it converts them in registers, and multiplies the sums by the scales of their
outputs. So does `gpu.ahead`. For `_rows` that work would cost more than the bytes it saves.

In both kernels a row's result does not depend on the other rows nor on their number. Between kernels the order of the
sums differs. `gpu.ahead` is a third kernel, for matrices that fit it; `linear_plan.AHEAD` says for how many rows.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.activation import Gelu
from rhapsode.nn.kernels.gpu.activation import gelu, silu_times
from rhapsode.nn.kernels.gpu.ahead import ahead_linear
from rhapsode.nn.kernels.gpu.launch import blocks, options, power_of_two, reads_float8, wait_for_previous
from rhapsode.nn.kernels.gpu.linear_plan import Plan, float8_plan, overlapping_rows, plan_for
from rhapsode.nn.kernels.gpu.norm import rounded_times
from rhapsode.nn.kernels.weight import Float8Weight, GpuWeight, Norm

# --- few rows ---


@triton.jit
def load_columns(x, FIRST: tl.constexpr, BLOCK: tl.constexpr, K: tl.constexpr):
    """Loads `BLOCK` numbers of a row `x [K]` from `FIRST` on, zero past the last."""
    column = FIRST + tl.arange(0, BLOCK)
    if FIRST + BLOCK <= K:
        return tl.load(x + column)
    return tl.load(x + column, mask=column < K, other=0.0)


@triton.jit
def load_tile(weight, outputs, FIRST: tl.constexpr, BLOCK: tl.constexpr, K: tl.constexpr):
    """Loads the same columns of the rows `outputs` of the weights."""
    # Eight per thread and no more, so that 8-bit weights are in the same threads as the inputs they multiply.
    column = tl.max_contiguous(FIRST + tl.arange(0, BLOCK), 8)[None, :]
    at = weight + outputs.to(tl.int64)[:, None] * K + column
    # Weights are read once: they should evict nothing else from the cache.
    if FIRST + BLOCK <= K:
        return tl.load(at, eviction_policy="evict_first")
    return tl.load(at, mask=column < K, other=0.0, eviction_policy="evict_first")


@triton.jit
def row_product(tile, tile_rest, columns, columns_rest, REST: tl.constexpr):
    sums = tl.sum(tile.to(tl.float32) * columns[None, :], axis=1)
    if REST > 0:
        sums += tl.sum(tile_rest.to(tl.float32) * columns_rest[None, :], axis=1)
    return sums


@triton.jit
def _scaled(sums, scales, biases, SCALED: tl.constexpr, BIAS: tl.constexpr):
    if SCALED:
        sums *= scales
    if BIAS:
        sums += biases
    return sums


@triton.jit
def _normed(wide, scale, weights, biases, CENTRED: tl.constexpr):
    """Multiplies (centred) columns by the scale and the weights of their norm, and adds a layer norm's biases."""
    if CENTRED:
        return (wide * scale * weights.to(tl.float32) + biases.to(tl.float32)).to(weights.dtype).to(tl.float32)
    return rounded_times(wide * scale, weights).to(tl.float32)


@triton.jit
def load_row(
    x, weights, weights_rest, biases, biases_rest, eps,
    K: tl.constexpr, BLOCK_K: tl.constexpr, REST: tl.constexpr, NORM: tl.constexpr, CENTRED: tl.constexpr,
):  # fmt: skip
    """Loads a row's columns in two blocks and normalises them; without a rest, both results are the first block."""
    columns = load_columns(x, 0, BLOCK_K, K).to(tl.float32)
    rest = load_columns(x, BLOCK_K, REST, K).to(tl.float32) if REST > 0 else columns
    if CENTRED:
        total = tl.sum(columns, axis=0)
        if REST > 0:
            total += tl.sum(rest, axis=0)
            rest = tl.where(BLOCK_K + tl.arange(0, REST) < K, rest - total / K, 0.0)
        columns -= total / K
    if NORM:
        squares = tl.sum(columns * columns, axis=0)
        if REST > 0:
            squares += tl.sum(rest * rest, axis=0)
        scale = tl.rsqrt(squares / K + eps)
        columns = _normed(columns, scale, weights, biases, CENTRED)
        if REST > 0:
            rest = _normed(rest, scale, weights_rest, biases_rest, CENTRED)
    return columns, rest


@triton.jit
def _vector(
    x, weight, scale, bias, norm_weight, norm_bias, residual, out, width, eps,
    ROWS: tl.constexpr, K: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, REST: tl.constexpr,
    NORM: tl.constexpr, CENTRED: tl.constexpr, GATED: tl.constexpr, GELU: tl.constexpr, SCALED: tl.constexpr,
    BIAS: tl.constexpr, RESIDUAL: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    wanted = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    outputs = tl.minimum(wanted, width - 1)
    # The weights are in flight before anything waits for the previous kernel.
    tile = load_tile(weight, outputs, 0, BLOCK_K, K)
    tile_rest = load_tile(weight, outputs, BLOCK_K, REST, K) if REST > 0 else tile
    if GATED:
        tile_up = load_tile(weight, outputs + width, 0, BLOCK_K, K)
        tile_up_rest = load_tile(weight, outputs + width, BLOCK_K, REST, K) if REST > 0 else tile_up
    gain = load_columns(norm_weight, 0, BLOCK_K, K) if NORM else 0.0
    gain_rest = load_columns(norm_weight, BLOCK_K, REST, K) if NORM and REST > 0 else gain
    shift = load_columns(norm_bias, 0, BLOCK_K, K) if CENTRED else 0.0
    shift_rest = load_columns(norm_bias, BLOCK_K, REST, K) if CENTRED and REST > 0 else shift
    scales = tl.load(scale + outputs) if SCALED else 1.0
    scales_up = tl.load(scale + width + outputs) if SCALED and GATED else 1.0
    biases = tl.load(bias + outputs).to(tl.float32) if BIAS else 0.0
    biases_up = tl.load(bias + width + outputs).to(tl.float32) if BIAS and GATED else 0.0
    wait_for_previous(OVERLAP)
    for row in tl.static_range(ROWS):
        if RESIDUAL:  # needed last, loaded first
            before = tl.load(residual + row * width + outputs)
        columns, rest = load_row(
            x + row * K, gain, gain_rest, shift, shift_rest, eps, K, BLOCK_K, REST, NORM, CENTRED
        )  # fmt: skip
        result = _scaled(row_product(tile, tile_rest, columns, rest, REST), scales, biases, SCALED, BIAS)
        result = result.to(out.dtype.element_ty)
        if GATED:
            up = _scaled(row_product(tile_up, tile_up_rest, columns, rest, REST), scales_up, biases_up, SCALED, BIAS)
            result = silu_times(result, up.to(out.dtype.element_ty))
        if GELU > 0:
            result = gelu(result, GELU == 2)
        if RESIDUAL:
            result = (before.to(tl.float32) + result.to(tl.float32)).to(before.dtype)
        tl.store(out + row * width + outputs, result, mask=wanted < width)


# --- more rows ---


@triton.jit
def _row_means(inputs, inside, at, K: tl.constexpr, ROWS: tl.constexpr, BLOCK_K: tl.constexpr):
    sums = tl.zeros((ROWS, BLOCK_K), tl.float32)
    for start in range(0, K, BLOCK_K):
        sums += tl.load(inputs + start, mask=inside & (start + at < K)[None, :], other=0.0).to(tl.float32)
    return tl.sum(sums, axis=1) / K


@triton.jit
def _row_scales(inputs, means, inside, at, eps, K: tl.constexpr, ROWS: tl.constexpr, BLOCK_K: tl.constexpr):
    """Returns the reciprocal root mean square of each row, after its entry in `means` is subtracted from it."""
    squares = tl.zeros((ROWS, BLOCK_K), tl.float32)
    for start in range(0, K, BLOCK_K):
        held = inside & (start + at < K)[None, :]
        wide = tl.load(inputs + start, mask=held, other=0.0).to(tl.float32)
        wide = tl.where(held, wide - means[:, None], 0.0)
        squares += wide * wide
    return tl.rsqrt(tl.sum(squares, axis=1) / K + eps)


@triton.jit(do_not_specialize=["rows"])
def _rows(
    x, weight, bias, norm_weight, norm_bias, residual, out, rows, width, eps,
    K: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NORM: tl.constexpr,
    CENTRED: tl.constexpr, GATED: tl.constexpr, GELU: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr,
    OVERLAP: tl.constexpr,
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
        means = tl.zeros((ROWS,), tl.float32)
        if CENTRED:
            means = _row_means(inputs, inside, at, K, ROWS, BLOCK_K)
        row_scales = _row_scales(inputs, means, inside, at, eps, K, ROWS, BLOCK_K)
    sums = tl.zeros((ROWS, BLOCK_N), tl.float32)
    sums_up = tl.zeros((ROWS, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        held = (start + at < K)[None, :]
        columns = tl.load(inputs + start, mask=inside & held, other=0.0)
        if NORM:
            norm_weights = tl.load(norm_weight + start + at, mask=start + at < K, other=0.0)[None, :]
            if CENTRED:
                norm_biases = tl.load(norm_bias + start + at, mask=start + at < K, other=0.0)[None, :]
                scaled = (columns.to(tl.float32) - means[:, None]) * row_scales[:, None]
                columns = (scaled * norm_weights.to(tl.float32) + norm_biases.to(tl.float32)).to(columns.dtype)
            else:
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
    if GELU > 0:
        result = gelu(result, GELU == 2)
    if RESIDUAL:
        result = (before.to(tl.float32) + result.to(tl.float32)).to(before.dtype)
    tl.store(out + where, result, mask=stored)


# --- launching ---


def plan_of(
    x: Tensor, weight: GpuWeight, bias: Tensor | None, norm: Norm | None, gated: bool, activation: Gelu | None
) -> Plan | None:
    """Returns how `small_batch_linear` multiplies these; `None` if it cannot, or another kernel is faster."""
    rows, k = x.numel() // x.shape[-1], x.shape[-1]
    plain = bias is None and activation is None and (norm is None or norm.bias is None)
    if isinstance(weight, Float8Weight):
        width = len(weight.values) // 2 if gated else len(weight.values)
        return float8_plan(rows, width, k, gated, x.dtype, plain) if reads_float8() else None
    if not weight.is_contiguous() or x.dtype != weight.dtype:
        return None
    return plan_for(rows, len(weight) // 2 if gated else len(weight), k, gated, x.dtype, plain)


def small_batch_linear(
    x: Tensor,
    weight: GpuWeight,
    bias: Tensor | None = None,
    *,
    plan: Plan,
    norm: Norm | None = None,
    gated: bool = False,
    activation: Gelu | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """Does what `fused_linear` does, for a small batch; the residual, if any, is contiguous."""
    if plan.kernel == "ahead":
        return ahead_linear(x, weight, plan, norm, gated, residual)
    eight_bits = isinstance(weight, Float8Weight)
    values, scales = (weight.values, weight.scales) if isinstance(weight, Float8Weight) else (weight, x)
    outputs, k = values.shape
    width = outputs // 2 if gated else outputs
    rows = x.numel() // k
    out = x.new_empty(*x.shape[:-1], width)
    norm_weight, eps, norm_bias = norm or (x, 0.0, None)
    given = (x if one is None else one for one in (bias, norm_weight, norm_bias, residual))
    others = (*given, out)
    programs = blocks(width, plan.block_n)
    constants = {
        "K": k,
        "BLOCK_N": plan.block_n,
        "BLOCK_K": plan.block_k,
        "NORM": norm is not None,
        "CENTRED": norm_bias is not None,
        "GATED": gated,
        "GELU": 0 if activation is None else 2 if activation == "gelu_tanh" else 1,
        "BIAS": bias is not None,
        "RESIDUAL": residual is not None,
        "num_warps": plan.warps,
        "num_stages": plan.stages,
        **options(rows, overlapping_rows(values.numel(), programs)),
    }
    if plan.kernel == "vector":
        rest = power_of_two(k - plan.block_k) if k > plan.block_k else 0
        _vector[(programs,)](
            x, values, scales, *others, width, eps, ROWS=rows, REST=rest, SCALED=eight_bits, **constants
        )
    else:
        _rows[(programs,)](x, values, *others, rows, width, eps, ROWS=power_of_two(rows, 16), **constants)
    return out
