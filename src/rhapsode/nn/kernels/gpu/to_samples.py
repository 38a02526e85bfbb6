"""The last convolution of a vocoder: to one channel, usually limited to [-1, 1]. It is bound by memory bandwidth."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import MULTIPROCESSORS, blocks, options, power_of_two, wait_for_previous


@triton.jit(do_not_specialize=["length"])
def _to_samples(
    x, weight, bias, out, length, x_batch,
    TAPS: tl.constexpr, CHANNELS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr, TANH: tl.constexpr,
    CLAMP: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(1)
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.arange(0, BLOCK_C)
    ok = c < CHANNELS
    x += batch.to(tl.int64) * x_batch
    wait_for_previous(OVERLAP)
    acc = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    row = tl.minimum(t, length - 1) * CHANNELS
    for tap in range(TAPS):
        inputs = tl.load(x + tap * CHANNELS + (row[:, None] + c[None, :]), mask=ok[None, :], other=0.0)
        acc += inputs.to(tl.float32) * tl.load(weight + tap * CHANNELS + c, mask=ok, other=0.0)[None, :]
    v = tl.sum(acc, 1) + tl.load(bias)
    if TANH:
        v = 2.0 * tl.sigmoid(2.0 * v) - 1.0
    if CLAMP:
        v = tl.minimum(tl.maximum(v, -1.0), 1.0)
    tl.store(out + batch * length + t, v, mask=t < length)


def to_samples(x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, tanh: bool = False, clamp: bool = True) -> None:
    """Convolves `x [B, tail + T, C]` with `weight [taps, C]` to one channel, and writes it to `out [B, T]`.

    All but `x` are float32. Samples are clamped, limited by `tanh`, or left as they are.
    """
    batch, length = out.shape
    block = 64 if batch * length > 64 * 2 * MULTIPROCESSORS else 16
    _to_samples[(blocks(length, block), batch)](
        x, weight, bias, out, length, x.stride(0),
        TAPS=weight.shape[0], CHANNELS=x.shape[2], BLOCK_T=block, BLOCK_C=power_of_two(x.shape[2]),
        TANH=tanh, CLAMP=clamp,
        num_warps=4, **options(),
    )  # fmt: skip
