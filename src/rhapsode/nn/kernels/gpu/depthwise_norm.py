"""A depthwise convolution followed by LayerNorm, in one launch. It is bound by memory bandwidth, not arithmetic."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import options, power_of_two, wait_for_previous


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
    wait_for_previous(OVERLAP)
    v = tl.load(bias + c, mask=ok, other=0.0)
    for tap in tl.static_range(TAPS):
        inputs = tl.load(x + tap * CHANNELS + c, mask=ok, other=0.0).to(tl.float32)
        v += inputs * tl.load(weight + tap * CHANNELS + c, mask=ok, other=0.0)
    v -= tl.sum(v, 0) / CHANNELS
    v = tl.where(ok, v, 0.0)
    v *= tl.rsqrt(tl.sum(v * v, 0) / CHANNELS + eps)
    v = v * tl.load(norm_weight + c, mask=ok, other=0.0) + tl.load(norm_bias + c, mask=ok, other=0.0)
    tl.store(out + row * CHANNELS + c, v.to(out.dtype.element_ty), mask=ok)


def depthwise_norm(
    x: Tensor, weight: Tensor, bias: Tensor, norm_weight: Tensor, norm_bias: Tensor, eps: float, out: Tensor
) -> None:
    """Convolves `x [B, tail + T, C]` with `weight [taps, C]`, norms, and writes `out [B, T, C]`, contiguous.

    All but `x` and `out` are float32.
    """
    batch, length, channels = out.shape
    _depthwise_norm[(batch * length,)](
        x, weight, bias, norm_weight, norm_bias, out, length, x.stride(0), eps,
        TAPS=weight.shape[0], CHANNELS=channels, BLOCK=power_of_two(channels), num_warps=4, **options(),
    )  # fmt: skip
