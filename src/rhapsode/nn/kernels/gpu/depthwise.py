"""A causal depthwise convolution between two snakes, which continues the state of slots in place.

The first snake is computed again for every tap that reads a value: a few multiplications instead of a round trip to
memory. The state holds the convolution's input. A second launch writes it, after all programs have read it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import options, power_of_two, wait_for_previous
from rhapsode.nn.kernels.gpu.snake import sin_squared
from rhapsode.nn.kernels.snake import SnakeWeights

BLOCK = 512
CHANNELS = 16


@triton.jit
def _depthwise(
    x, tails, slots, weight, bias, frequency, size, next_frequency, next_size, out,
    channels, length, tail_row,
    TAIL: tl.constexpr, KERNEL: tl.constexpr, DILATION: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    channel = row % channels
    t = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = t < length
    f, s = tl.load(frequency + channel), tl.load(size + channel)
    next_f, next_s = tl.load(next_frequency + channel), tl.load(next_size + channel)
    sums = tl.zeros((BLOCK,), tl.float32) + tl.load(bias + channel)
    wait_for_previous(OVERLAP)
    past = tails + tl.load(slots + row // channels) * tail_row + channel
    for tap in tl.static_range(KERNEL):
        at = t - (KERNEL - 1 - tap) * DILATION
        new = tl.load(x + row * length + at, mask=inside & (at >= 0), other=0.0).to(tl.float32)
        new += s * sin_squared(new * f)
        old = tl.load(past + (TAIL + at) * channels, mask=inside & (at < 0), other=0.0).to(tl.float32)
        sums += tl.load(weight + channel * KERNEL + tap) * tl.where(at < 0, old, new)
    sums += next_s * sin_squared(sums * next_f)
    tl.store(out + row * length + t, sums.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _store_tails(
    x, tails, slots, frequency, size, channels, length, tail_row,
    TAIL: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(0).to(tl.int64)
    channel = (tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    place = tl.arange(0, BLOCK_T)[:, None]
    inside = (place < TAIL) & (channel < channels)
    at = length - TAIL + place
    f = tl.load(frequency + channel, mask=channel < channels, other=0.0)
    s = tl.load(size + channel, mask=channel < channels, other=0.0)
    wait_for_previous(OVERLAP)
    past = tails + tl.load(slots + batch) * tail_row + channel
    new = tl.load(x + (batch * channels + channel) * length + at, mask=inside & (at >= 0), other=0.0).to(tl.float32)
    new += s * sin_squared(new * f)
    old = tl.load(past + (TAIL + at) * channels, mask=inside & (at < 0), other=0.0).to(tl.float32)
    tl.debug_barrier()  # a short chunk shifts the old state: all of it is read before any of it is written
    tl.store(past + place * channels, tl.where(at < 0, old, new).to(tails.dtype.element_ty), mask=inside)


def snaked_depthwise(
    x: Tensor,
    tails: Tensor,
    slots: Tensor,
    before: SnakeWeights,
    weight: Tensor,
    bias: Tensor,
    dilation: int,
    after: SnakeWeights,
) -> Tensor:
    """`x [B, C, T]` is contiguous; `tails [S, tail, C]` may have any row stride."""
    batch, channels, length = x.shape
    tail = tails.shape[1]
    out = torch.empty_like(x)
    _depthwise[(batch * channels, triton.cdiv(length, BLOCK))](
        x, tails, slots, weight, bias, *before, *after, out, channels, length, tails.stride(0),
        TAIL=tail, KERNEL=weight.shape[-1], DILATION=dilation, BLOCK=BLOCK, num_warps=4, **options(),
    )  # fmt: skip
    _store_tails[(batch, triton.cdiv(channels, CHANNELS))](
        x, tails, slots, *before, channels, length, tails.stride(0),
        TAIL=tail, BLOCK_T=power_of_two(tail, 16), BLOCK_C=CHANNELS, num_warps=4, **options(),
    )  # fmt: skip
    return out
