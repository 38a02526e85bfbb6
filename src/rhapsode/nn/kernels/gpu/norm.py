"""RMS norm: one program per row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import options, power_of_two, wait_for_previous


@triton.jit
def rms_scale(wide, dim, eps):
    """Returns the reciprocal root mean square of a row `wide [BLOCK]` in float32, zero past `dim`."""
    return tl.rsqrt(tl.sum(wide * wide, axis=0) / dim + eps)


@triton.jit
def rounded_times(wide, factor):
    """Rounds `wide` to the dtype of `factor`, multiplies in float32, and rounds again."""
    return (wide.to(factor.dtype).to(tl.float32) * factor.to(tl.float32)).to(factor.dtype)


@triton.jit
def _rms_norm(x, weight, out, dim, eps, BLOCK: tl.constexpr, OVERLAP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < dim
    weights = tl.load(weight + at, mask=inside, other=0.0)
    wait_for_previous(OVERLAP)
    wide = tl.load(x + row * dim + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * dim + at, rounded_times(wide * rms_scale(wide, dim, eps), weights), mask=inside)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    out = torch.empty_like(x)
    dim = x.shape[-1]
    block = power_of_two(dim)
    warps = min(8, max(1, block // 256))
    rows = x.numel() // dim
    _rms_norm[(rows,)](x, weight, out, dim, eps, BLOCK=block, num_warps=warps, **options(rows))
    return out
