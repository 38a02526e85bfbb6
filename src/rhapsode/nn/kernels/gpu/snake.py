"""SnakeBeta in float32: as a kernel, and as a function for other kernels whose values are in registers."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import blocks, options, wait_for_previous

BLOCK = 1024


@triton.jit
def sin_squared(x):
    """Returns `sin(x) ** 2`, within 1e-6 for |x| < 1e5.

    Its period is pi, so it needs only the remainder of a division by pi, which is small enough for a short polynomial.
    The library's sine would spend as many registers on much larger arguments.
    """
    periods = (x * 0.3183098861837907 + 12582912.0) - 12582912.0  # rounds to a whole number
    r = (x - periods * 3.140625) - periods * 9.67653589793e-4  # pi in two parts: the first product is exact
    s = r * r
    return s + s * s * (-0.333313535 + s * (0.0443858098 + s * (-0.0031145897 + s * 0.000115091488)))


@triton.jit
def snake(v, frequency, size, channel, ok):
    """Returns `v + size * sin(frequency * v) ** 2` for `v [rows, channels]`, whose columns are these channels."""
    wave = sin_squared(v * tl.load(frequency + channel, mask=ok, other=0.0)[None, :])
    return v + wave * tl.load(size + channel, mask=ok, other=0.0)[None, :]


@triton.jit
def _snake(x, frequency, size, out, channels, length, BLOCK: tl.constexpr, OVERLAP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)  # one channel of one row of the batch
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < length
    channel = row % channels
    f, s = tl.load(frequency + channel).to(tl.float32), tl.load(size + channel).to(tl.float32)
    wait_for_previous(OVERLAP)
    v = tl.load(x + row * length + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * length + at, (v + s * sin_squared(v * f)).to(out.dtype.element_ty), mask=inside)


def snake_beta(x: Tensor, frequency: Tensor, size: Tensor) -> Tensor:
    """`x [B, C, T]` is contiguous."""
    batch, channels, length = x.shape
    out = torch.empty_like(x)
    grid = (batch * channels, blocks(length, BLOCK))
    _snake[grid](x, frequency, size, out, channels, length, BLOCK=BLOCK, num_warps=4, **options())
    return out
