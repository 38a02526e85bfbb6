"""A residual unit (two convolutions and their activations) in one kernel, for channels that fit into one block.

The values between the two convolutions stay in registers.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.conv import ConvWeights, Tile, finish, precision, product, stride
from rhapsode.nn.kernels.gpu.launch import MULTIPROCESSORS, blocks, options, power_of_two, wait_for_previous
from rhapsode.nn.kernels.gpu.snake import snake
from rhapsode.nn.kernels.snake import SnakeWeights

MAX_CHANNELS = 128


@triton.jit(do_not_specialize=["rows", "length", "gap"])
def _residual_unit(
    x, matrix, bias, middle_frequency, middle_size, pointwise, pointwise_bias,
    residual, out, act, frequency, size, valid,
    rows, length, gap, x_batch, residual_batch, out_batch, act_batch,
    DEPTH: tl.constexpr, CHANNELS: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.arange(0, BLOCK_N)
    fits = column < CHANNELS
    ok = (m < rows)[:, None] & fits[None, :]
    m = tl.minimum(m, rows - 1)
    safe = tl.minimum(column, CHANNELS - 1)
    batch = m // length
    t = m - batch * length
    row = batch * x_batch + t * CHANNELS
    wait_for_previous(OVERLAP)
    v, _ = product(
        x, matrix, row, safe, gap, DEPTH, CHANNELS, BLOCK_M, BLOCK_N, BLOCK_K, PRECISION, False,
    )  # fmt: skip
    v = snake(v + tl.load(bias + safe)[None, :], middle_frequency, middle_size, safe, fits)
    # Columns past the last channel hold copies of it, and are multiplied by zeros here.
    mask = fits[:, None] & fits[None, :]
    b = tl.load(pointwise + (safe[None, :] * CHANNELS + column[:, None]), mask=mask, other=0.0)
    v = tl.dot(v.to(b.dtype), b, input_precision=PRECISION) + tl.load(pointwise_bias + safe)[None, :]
    finish(
        v, ok, batch, t, column, residual, residual_batch, out, out_batch, act, act_batch, None, None, frequency, size,
        valid, CHANNELS, CHANNELS,
    )  # fmt: skip


def residual_unit(
    x: Tensor,
    first: ConvWeights,
    middle: SnakeWeights,
    second: ConvWeights,
    *,
    residual: Tensor,
    out: Tensor | None,
    act: Tensor,
    snake: SnakeWeights,
    valid: Tensor | None = None,
) -> None:
    """Writes `residual + second(middle(first(x)))` to `out`, and `snake` of it to `act`; `x [B, tail + T, C]`.

    Rows of `act` outside `valid [B, 2]` (the first one, and the end) are zeros.
    """
    channels = x.shape[2]
    length = x.shape[1] - (first.taps - 1) * first.dilation
    rows = x.shape[0] * length
    tile = pick(rows, channels)
    _residual_unit[(blocks(rows, tile.rows),)](
        x, first.matrix, first.bias, middle.frequency, middle.size, second.matrix, second.bias,
        residual, out, act, snake.frequency, snake.size, valid,
        rows, length, first.dilation - 1, x.stride(0), stride(residual), stride(out), stride(act),
        DEPTH=first.taps * channels, CHANNELS=channels, PRECISION=precision(first),
        BLOCK_M=tile.rows, BLOCK_N=tile.columns, BLOCK_K=tile.depth, num_warps=tile.warps, num_stages=tile.stages,
        **options(),
    )  # fmt: skip


def pick(rows: int, channels: int) -> Tile:
    columns = power_of_two(channels, 16)
    depth = 32 if channels % 32 == 0 else 16
    return Tile(128, columns, depth, 8, 4) if rows > 128 * MULTIPROCESSORS else Tile(32, columns, depth, 4, 4)
