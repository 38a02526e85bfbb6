"""A causal convolution over channels-last rows as one matrix product, with everything that follows fused in.

The input is a buffer `[B, tail + T, C]` that begins with the slot's state, so output `t` reads rows
`t + tap * dilation` without special cases. Weights are `[N, taps * C]`, newest tap last. The same kernel computes a
linear layer (one tap) and a transposed convolution, whose `stride` phases are columns: `[T, stride * C]` and
`[T * stride, C]` have the same layout in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import blocks, options, wait_for_previous
from rhapsode.nn.kernels.gpu.snake import snake
from rhapsode.nn.kernels.snake import SnakeWeights


@dataclass(frozen=True)
class Tile:
    """The tile that one program computes."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


@dataclass(frozen=True)
class ConvWeights:
    """A convolution as a matrix product: `matrix [N, taps * C]`, `bias [N]` in float32."""

    matrix: Tensor
    bias: Tensor | None
    taps: int = 1
    dilation: int = 1
    groups: int = 1
    """Each group of outputs reads its own group of inputs; `C` is the size of one."""


class Affine(NamedTuple):
    """A gain and a shift per channel, `[C]` in float32."""

    gain: Tensor
    shift: Tensor


@triton.jit
def product(
    x, matrix, row, column, gap,
    DEPTH: tl.constexpr, CHANNELS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr, SQUARES: tl.constexpr,
):  # fmt: skip
    """Multiplies the windows that begin at `x + row` by the rows `column` of the matrix: [BLOCK_M, BLOCK_N], float32.

    Element `k` of a window is channel `k % CHANNELS` of tap `k // CHANNELS`; taps have `gap` rows between them.
    The second result is the sum of squares of each window, with `SQUARES`.
    """
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    squares = tl.zeros((BLOCK_M,), tl.float32)
    weights = matrix + column[None, :] * DEPTH
    for start in range(0, DEPTH, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        # A block within one tap needs one division instead of BLOCK_K.
        tap = start // CHANNELS if CHANNELS % BLOCK_K == 0 else k // CHANNELS
        at = k + tap * gap * CHANNELS
        if DEPTH % BLOCK_K == 0:
            a = tl.load(x + (row[:, None] + at[None, :]))
            b = tl.load(weights + k[:, None])
        else:
            a = tl.load(x + (row[:, None] + at[None, :]), mask=k[None, :] < DEPTH, other=0.0)
            b = tl.load(weights + k[:, None], mask=k[:, None] < DEPTH, other=0.0)
        acc = tl.dot(a.to(b.dtype), b, acc, input_precision=PRECISION)
        if SQUARES:
            wide = a.to(tl.float32)
            squares += tl.sum(wide * wide, 1)
    return acc, squares


@triton.jit
def store(place, v, ok):
    """Stores `v`, clamped to float16's range: one infinite value would silence the stream for good."""
    kind = place.dtype.element_ty
    if kind == tl.float16:
        v = tl.minimum(tl.maximum(v, -65504.0), 65504.0)
    tl.store(place, v.to(kind), mask=ok)


@triton.jit
def finish(
    v, ok, batch, t, column, residual, residual_batch, out, out_batch, act, act_batch, gain, shift, frequency, size,
    valid, WIDTH: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Adds the residual, stores the sum in `out` and its activation in `act`; each may be `None`.

    The activation is a gain and a shift, then a snake; each may be `None`. Rows of `act` outside the range that
    `valid [B, 2]` gives, if it is not `None`, are zeros.
    """
    place = t[:, None] * WIDTH + column[None, :]
    if residual is not None:
        v += tl.load(residual + (batch[:, None] * residual_batch + place), mask=ok, other=0.0).to(tl.float32)
    if out is not None:
        store(out + (batch[:, None] * out_batch + place), v, ok)
    if act is not None:
        if gain is not None:
            v *= tl.load(gain + column % CHANNELS, mask=column < WIDTH, other=0.0)[None, :]
            v += tl.load(shift + column % CHANNELS, mask=column < WIDTH, other=0.0)[None, :]
        if frequency is not None:
            v = snake(v, frequency, size, column % CHANNELS, column < WIDTH)
        if valid is not None:
            row = t[:, None] * (WIDTH // CHANNELS) + (column // CHANNELS)[None, :]
            first, end = tl.load(valid + 2 * batch)[:, None], tl.load(valid + 2 * batch + 1)[:, None]
            v = tl.where((row >= first) & (row < end), v, 0.0)
        store(act + (batch[:, None] * act_batch + place), v, ok)


@triton.jit(do_not_specialize=["rows", "length", "gap"])
def _conv(
    x, matrix, bias, scale, residual, out, act, gain, shift, frequency, size, valid,
    rows, length, gap, eps, x_batch, residual_batch, out_batch, act_batch,
    DEPTH: tl.constexpr, INPUTS: tl.constexpr, GROUPS: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr,
    NORM: tl.constexpr, FUNCTION: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    # Column blocks of the same rows are neighbours, so that they share their input in L2.
    blocks: tl.constexpr = (WIDTH + BLOCK_N - 1) // BLOCK_N
    m = tl.program_id(0) // blocks * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(0) % blocks * BLOCK_N + tl.arange(0, BLOCK_N)
    ok = (m < rows)[:, None] & (column < WIDTH)[None, :]
    # Rows and columns past the end repeat the last one: loads need no mask, only stores do.
    m = tl.minimum(m, rows - 1)
    safe = tl.minimum(column, WIDTH - 1)
    batch = m // length
    t = m - batch * length
    row = batch * x_batch + t * (INPUTS * GROUPS)
    if GROUPS > 1:  # a block of columns is in one group
        row += tl.program_id(0) % blocks * BLOCK_N // (WIDTH // GROUPS) * INPUTS
    wait_for_previous(OVERLAP)
    v, squares = product(
        x, matrix, row, safe, gap, DEPTH, INPUTS, BLOCK_M, BLOCK_N, BLOCK_K, PRECISION, NORM,
    )  # fmt: skip
    if NORM:
        v *= tl.rsqrt(squares / DEPTH + eps)[:, None]
    if bias is not None:
        v += tl.load(bias + safe)[None, :]
    if FUNCTION == "gelu":
        v = 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))
    if FUNCTION == "mish":  # v * tanh(log(1 + exp(v)))
        e = tl.exp(tl.minimum(v, 20.0))
        v *= 1.0 - 2.0 / (e * (e + 2.0) + 2.0)
    if FUNCTION == "swiglu":
        up, squares = product(
            x, matrix + WIDTH * DEPTH, row, safe, gap, DEPTH, INPUTS, BLOCK_M, BLOCK_N, BLOCK_K, PRECISION, NORM,
        )  # fmt: skip
        if NORM:
            up *= tl.rsqrt(squares / DEPTH + eps)[:, None]
        v = v * tl.sigmoid(v) * up
    if scale is not None:
        v *= tl.load(scale + safe)[None, :]
    finish(
        v, ok, batch, t, column, residual, residual_batch, out, out_batch, act, act_batch, gain, shift, frequency, size,
        valid, WIDTH, CHANNELS,
    )  # fmt: skip


def conv(
    x: Tensor,
    weights: ConvWeights,
    *,
    out: Tensor | None = None,
    act: Tensor | None = None,
    snake: SnakeWeights | None = None,
    affine: Affine | None = None,
    valid: Tensor | None = None,
    residual: Tensor | None = None,
    scale: Tensor | None = None,
    norm_eps: float | None = None,
    function: str = "",
    tile: Tile | None = None,
) -> None:
    """Convolves `x [B, tail + T, C]` and writes `out` and `act`, views of `[B, T * stride, C']`.

    The order is: RMS norm of the input (its weight is part of the matrix), product, bias, `function` ("gelu", "mish",
    or "swiglu" of a matrix with the rows of both halves), `scale`, `residual`. The result goes to `out`, and to `act`
    after `affine` and `snake`, if given; rows of `act` outside `valid [B, 2]` (the first one, and the end) are zeros.
    Products use the weights' dtype, the rest float32; tensors may have other dtypes.
    """
    width = weights.matrix.shape[0] // (2 if function == "swiglu" else 1)
    inputs = x.shape[2] // weights.groups
    length = x.shape[1] - (weights.taps - 1) * weights.dilation
    rows = x.shape[0] * length
    exact = weights.matrix.dtype == torch.float32 and precision(weights) == "ieee"
    if weights.groups > 1:
        tile = tile or pick_grouped(rows, width, width // weights.groups, inputs, exact)
    tile = tile or (_EXACT if exact else pick(rows, width, inputs, weights.taps))
    act_channels = width if snake is None else snake.size.numel()
    _conv[(blocks(rows, tile.rows) * blocks(width, tile.columns),)](
        x, weights.matrix, weights.bias, scale, residual, out, act, affine and affine.gain, affine and affine.shift,
        snake and snake.frequency, snake and snake.size, valid,
        rows, length, weights.dilation * weights.groups - 1, norm_eps or 0.0,
        x.stride(0), stride(residual), stride(out), stride(act),
        DEPTH=weights.taps * inputs, INPUTS=inputs, GROUPS=weights.groups, WIDTH=width, CHANNELS=act_channels,
        NORM=norm_eps is not None, FUNCTION=function, PRECISION=precision(weights),
        BLOCK_M=tile.rows, BLOCK_N=tile.columns, BLOCK_K=tile.depth, num_warps=tile.warps, num_stages=tile.stages,
        **options(),
    )  # fmt: skip


def stride(x: Tensor | None) -> int:
    return 0 if x is None else x.stride(0)


def precision(weights: ConvWeights) -> str:
    """Returns the precision of float32 products, which follows torch's setting."""
    return "tf32" if weights.matrix.dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32 else "ieee"


_EXACT = Tile(32, 32, 32, 4, 2)  # float32 products use registers, not tensor cores
_PROGRAMS = 120  # fewer than this leave multiprocessors of an H200 idle


def pick(rows: int, width: int, inputs: int, taps: int = 1) -> Tile:
    """Returns the largest tile that still gives every multiprocessor work; if none does, the smallest one.

    Small tiles have more `depth`. A short sum gets 64 columns: it is mostly epilogue, which needs the registers that a
    wide tile would take. So do 192 and 288 outputs, which waste less in blocks of 64.
    """
    depth, deep = (next(d for d in sizes if inputs % d == 0 or d == 16) for sizes in ((64, 32, 16), (256, 128, 64, 16)))
    columns = 128 if taps * inputs >= 1024 and width >= 384 else 64
    many = (Tile(128, columns, depth, columns // 16, 3), Tile(64, 64, depth, 4, 4), Tile(32, 64, depth, 4, 4))
    few = (Tile(16, 64, deep, 4, 3), Tile(16, 32, deep, 4, 3), Tile(16, 16, deep, 4, 3))
    some = (*many, Tile(32, 32, deep, 4, 3), Tile(32, 16, deep, 4, 3))
    for tile in few if rows <= 16 else some:
        if blocks(rows, tile.rows) * blocks(width, tile.columns) >= _PROGRAMS:
            return tile
    return tile


def pick_grouped(rows: int, width: int, group: int, inputs: int, exact: bool) -> Tile:
    """Returns a tile whose columns are in one group, which has `group` columns."""
    columns = next(n for n in ((32, 16) if exact else (64, 32, 16)) if group % n == 0)
    if exact:
        return Tile(32, columns, 32, 4, 2)
    depth = next(d for d in (64, 32, 16) if inputs % d == 0 or d == 16)
    for size in (128, 64, 32):
        if blocks(rows, size) * (width // columns) >= _PROGRAMS:
            break
    return Tile(size, columns, depth, 4, 4)
