"""The convolutions that are no matrix product: one channel each, or a single output. Bytes decide, not arithmetic."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import after_predecessor, options, power_of_two


@triton.jit(do_not_specialize=["length"])
def _depthwise_norm(
    x, weight, bias, norm_weight, norm_bias, out, length, x_batch, eps,
    TAPS: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    batch = row // length
    c = tl.arange(0, BLOCK)
    ok = c < CHANNELS
    x += batch * x_batch + (row - batch * length) * CHANNELS
    after_predecessor(OVERLAP)
    v = tl.load(bias + c, mask=ok, other=0.0)
    for tap in tl.static_range(TAPS):
        seen = tl.load(x + tap * CHANNELS + c, mask=ok, other=0.0).to(tl.float32)
        v += seen * tl.load(weight + tap * CHANNELS + c, mask=ok, other=0.0)
    v -= tl.sum(v, 0) / CHANNELS
    v = tl.where(ok, v, 0.0)
    v *= tl.rsqrt(tl.sum(v * v, 0) / CHANNELS + eps)
    v = v * tl.load(norm_weight + c, mask=ok, other=0.0) + tl.load(norm_bias + c, mask=ok, other=0.0)
    tl.store(out + row * CHANNELS + c, v.to(out.dtype.element_ty), mask=ok)


def depthwise_norm(
    x: Tensor, weight: Tensor, bias: Tensor, norm_weight: Tensor, norm_bias: Tensor, eps: float, out: Tensor
) -> None:
    """LayerNorm of a depthwise convolution: `x [B, tail + T, C]`, `weight [taps, C]`, `out [B, T, C]` contiguous.

    All that is not `x` or `out` is float32.
    """
    batch, length, channels = out.shape
    _depthwise_norm[(batch * length,)](
        x, weight, bias, norm_weight, norm_bias, out, length, x.stride(0), eps,
        TAPS=weight.shape[0], CHANNELS=channels, BLOCK=power_of_two(channels), num_warps=4, **options(),
    )  # fmt: skip


@triton.jit(do_not_specialize=["length"])
def _to_samples(
    x, weight, bias, out, length, x_batch,
    TAPS: tl.constexpr, CHANNELS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(1)
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.arange(0, BLOCK_C)
    ok = c < CHANNELS
    x += batch.to(tl.int64) * x_batch
    after_predecessor(OVERLAP)
    acc = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    row = tl.minimum(t, length - 1) * CHANNELS
    for tap in range(TAPS):
        seen = tl.load(x + tap * CHANNELS + (row[:, None] + c[None, :]), mask=ok[None, :], other=0.0)
        acc += seen.to(tl.float32) * tl.load(weight + tap * CHANNELS + c, mask=ok, other=0.0)[None, :]
    v = tl.sum(acc, 1) + tl.load(bias)
    v = tl.minimum(tl.maximum(v, -1.0), 1.0)
    tl.store(out + batch * length + t, v, mask=t < length)


def to_samples(x: Tensor, weight: Tensor, bias: Tensor, out: Tensor) -> None:
    """The last convolution, to one channel within [-1, 1]: `x [B, tail + T, C]`, `weight [taps, C]`, `out [B, T]`.

    All that is not `x` is float32.
    """
    batch, length = out.shape
    block = 64 if batch * length > 64 * 264 else 16
    _to_samples[(triton.cdiv(length, block), batch)](
        x, weight, bias, out, length, x.stride(0),
        TAPS=weight.shape[0], CHANNELS=x.shape[2], BLOCK_T=block, BLOCK_C=power_of_two(x.shape[2]),
        num_warps=4, **options(),
    )  # fmt: skip
