"""The gate of SwiGLU, and GELU."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import LIGHT_OVERLAP_ROWS, blocks, options, wait_for_previous
from rhapsode.nn.kernels.gpu.norm import rounded_times

BLOCK = 1024


@triton.jit
def silu_times(gate, up):
    """Returns `silu(gate) * up`, rounded after each of the two operations as the reference does."""
    wide = gate.to(tl.float32)
    return rounded_times(wide / (1.0 + tl.exp(-wide)), up)


@triton.jit
def gelu(x, TANH: tl.constexpr):
    """Returns the GELU of `x`, in its dtype; `TANH` is the formula with a hyperbolic tangent."""
    wide = x.to(tl.float32)
    if TANH:
        # x * (1 + tanh(y)) / 2 is x * sigmoid(2 * y).
        y = 0.7978845608028654 * (wide + 0.044715 * wide * wide * wide)
        result = wide / (1.0 + tl.exp(-2.0 * y))
    else:
        result = 0.5 * wide * (1.0 + tl.erf(wide * 0.7071067811865476))
    return result.to(x.dtype)


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
    early = options(rows, LIGHT_OVERLAP_ROWS)
    _silu_mul[(rows, blocks(width, BLOCK))](x, out, width, BLOCK=BLOCK, num_warps=4, **early)
    return out
