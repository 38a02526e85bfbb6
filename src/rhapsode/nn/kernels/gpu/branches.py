"""Kernels where a network splits into branches or joins them: the snake of a sum, and the upsampled mean.

Rows are channels-last.
"""

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.conv import store
from rhapsode.nn.kernels.gpu.launch import blocks, options, wait_for_previous
from rhapsode.nn.kernels.gpu.snake import sin_squared
from rhapsode.nn.kernels.snake import SnakeWeights

BLOCK = 1024


@triton.jit(do_not_specialize=["numbers"])
def _snaked_sum(
    x, added, out, act, frequency, size, numbers, x_batch, added_batch, act_batch,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    batch = tl.program_id(1).to(tl.int64)
    ok = at < numbers
    wait_for_previous(OVERLAP)
    v = tl.load(x + batch * x_batch + at, mask=ok, other=0.0).to(tl.float32)
    if added is not None:
        v += tl.load(added + batch * added_batch + at, mask=ok, other=0.0).to(tl.float32)
        store(out + batch * numbers + at, v, ok)
    channel = at % CHANNELS
    v += tl.load(size + channel) * sin_squared(v * tl.load(frequency + channel))
    store(act + batch * act_batch + at, v, ok)


def snaked_sum(
    x: Tensor, snake: SnakeWeights, act: Tensor, added: Tensor | None = None, out: Tensor | None = None
) -> None:
    """Writes `snake` of `x [B, T, C]` to `act`; if something is `added` to `x`, the sum goes to `out`.

    `out` is contiguous, and so are the rows of the others.
    """
    batch, length, channels = x.shape
    numbers = length * channels
    _snaked_sum[(blocks(numbers, BLOCK), batch)](
        x, added, out, act, snake.frequency, snake.size, numbers,
        x.stride(0), 0 if added is None else added.stride(0), act.stride(0),
        CHANNELS=channels, BLOCK=BLOCK, num_warps=4, **options(),
    )  # fmt: skip


@triton.jit(do_not_specialize=["numbers", "slope"])
def _upsampled_mean(
    first, second, third, out, numbers, slope, in_batch, out_batch,
    COUNT: tl.constexpr, RATE: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    batch = tl.program_id(1).to(tl.int64)
    ok = at < numbers
    source = batch * in_batch + at // CHANNELS // RATE * CHANNELS + at % CHANNELS
    wait_for_previous(OVERLAP)
    v = tl.load(first + source, mask=ok, other=0.0).to(tl.float32)
    if COUNT > 1:
        v += tl.load(second + source, mask=ok, other=0.0)
    if COUNT > 2:
        v += tl.load(third + source, mask=ok, other=0.0)
    v /= COUNT
    store(out + batch * out_batch + at, tl.where(v < 0, v * slope, v), ok)


MOST_BRANCHES = 3


def upsampled_mean(branches: Sequence[Tensor], out: Tensor, rate: int, slope: float) -> None:
    """Writes the leaky ReLU of the mean of up to three branches `[B, T, C]` to `out [B, n, C]`.

    Each row is repeated `rate` times; of the last one, only as many as `out` has room for.
    """
    numbers, channels = out.shape[1] * out.shape[2], out.shape[2]
    given = [*branches, *[branches[0]] * (MOST_BRANCHES - len(branches))]
    _upsampled_mean[(blocks(numbers, BLOCK), len(out))](
        *given, out, numbers, slope, branches[0].stride(0), out.stride(0),
        COUNT=len(branches), RATE=rate, CHANNELS=channels, BLOCK=BLOCK, num_warps=4, **options(),
    )  # fmt: skip
