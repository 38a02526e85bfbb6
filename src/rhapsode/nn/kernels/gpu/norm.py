"""RMS norm: one program a row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import after_predecessor, options, power_of_two


@triton.jit
def rms_scale(wide, dim, eps):
    """What a row `wide [BLOCK]` in float32, zero past `dim`, is multiplied by."""
    return tl.rsqrt(tl.sum(wide * wide, axis=0) / dim + eps)


@triton.jit
def rounded_times(wide, gain):
    """`wide` rounded to the type of `gain`, times `gain`, rounded again; the products are float32 in between."""
    return (wide.to(gain.dtype).to(tl.float32) * gain.to(tl.float32)).to(gain.dtype)


@triton.jit
def _rms_norm(x, weight, out, dim, eps, BLOCK: tl.constexpr, OVERLAP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < dim
    gain = tl.load(weight + at, mask=inside, other=0.0)
    after_predecessor(OVERLAP)
    wide = tl.load(x + row * dim + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * dim + at, rounded_times(wide * rms_scale(wide, dim, eps), gain), mask=inside)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    out = torch.empty_like(x)
    dim = x.shape[-1]
    block = power_of_two(dim)
    warps = min(8, max(1, block // 256))
    rows = x.numel() // dim
    _rms_norm[(rows,)](x, weight, out, dim, eps, BLOCK=block, num_warps=warps, **options(rows))
    return out
