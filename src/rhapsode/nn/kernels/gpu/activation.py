"""The gate of SwiGLU."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import options, wait_for_previous
from rhapsode.nn.kernels.gpu.norm import rounded_times

BLOCK = 1024


@triton.jit
def silu_times(gate, up):
    """Returns `silu(gate) * up`, rounded after each of the two operations as the reference does."""
    wide = gate.to(tl.float32)
    return rounded_times(wide / (1.0 + tl.exp(-wide)), up)


@triton.jit
def _silu_mul(x, out, width, BLOCK: tl.constexpr, OVERLAP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < width
    wait_for_previous(OVERLAP)
    gate = tl.load(x + row * 2 * width + at, mask=inside)
    up = tl.load(x + row * 2 * width + width + at, mask=inside)
    tl.store(out + row * width + at, silu_times(gate, up), mask=inside)


def silu_mul(x: Tensor) -> Tensor:
    width = x.shape[-1] // 2
    out = x.new_empty(*x.shape[:-1], width)
    rows = out.numel() // width
    _silu_mul[(rows, triton.cdiv(width, BLOCK))](x, out, width, BLOCK=BLOCK, num_warps=4, **options(rows))
    return out
