"""A causal depthwise convolution over channels-last rows, and the snake after it. It is bound by memory bandwidth."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.conv import store
from rhapsode.nn.kernels.gpu.launch import blocks, options, power_of_two, wait_for_previous
from rhapsode.nn.kernels.gpu.snake import snake as apply_snake
from rhapsode.nn.kernels.snake import SnakeWeights

CHANNELS = 64
NUMBERS = 1024
"""A program computes `NUMBERS` outputs, of at most `CHANNELS` neighbouring channels."""


@triton.jit(do_not_specialize=["length", "dilation"])
def _depthwise(
    x, weight, bias, frequency, size, out, length, dilation, x_batch,
    TAPS: tl.constexpr, CHANNELS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(2).to(tl.int64)
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    known = channel < CHANNELS
    ok = (t < length)[:, None] & known[None, :]
    sums = tl.zeros((BLOCK_T, BLOCK_C), tl.float32) + tl.load(bias + channel, mask=known, other=0.0)[None, :]
    wait_for_previous(OVERLAP)
    at = x + batch * x_batch + (t[:, None] * CHANNELS + channel[None, :])
    for tap in tl.static_range(TAPS):
        inputs = tl.load(at + tap * dilation * CHANNELS, mask=ok, other=0.0).to(tl.float32)
        sums += inputs * tl.load(weight + tap * CHANNELS + channel, mask=known, other=0.0)[None, :]
    if frequency is not None:
        sums = apply_snake(sums, frequency, size, channel, known)
    store(out + batch * length * CHANNELS + (t[:, None] * CHANNELS + channel[None, :]), sums, ok)


def depthwise(
    x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, dilation: int = 1, snake: SnakeWeights | None = None
) -> None:
    """Convolves `x [B, tail + T, C]` with `weight [taps, C]`, and writes `snake` of it to `out [B, T, C]`.

    Weights and sums are float32.
    """
    batch, length, channels = out.shape
    block_c = min(CHANNELS, power_of_two(channels))
    block_t = min(NUMBERS // block_c, power_of_two(length))
    _depthwise[(blocks(length, block_t), blocks(channels, block_c), batch)](
        x, weight, bias, snake and snake.frequency, snake and snake.size, out, length, dilation, x.stride(0),
        TAPS=len(weight), CHANNELS=channels, BLOCK_T=block_t, BLOCK_C=block_c, num_warps=4, **options(),
    )  # fmt: skip
