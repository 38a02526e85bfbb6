"""8-bit weights in a wider dtype: one program per row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import power_of_two


@triton.jit
def _dequantise(values, scales, out, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    scale = tl.load(scales + row)
    for start in range(0, K, BLOCK):
        inside = start + at < K
        wide = tl.load(values + row * K + start + at, mask=inside, other=0.0).to(tl.float32) * scale
        tl.store(out + row * K + start + at, wide.to(out.dtype.element_ty), mask=inside)


def dequantised(values: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """Multiplies `values [N, K]` by their `scales [N]`."""
    rows, k = values.shape
    out = torch.empty(rows, k, dtype=dtype, device=values.device)
    _dequantise[(rows,)](values, scales, out, K=k, BLOCK=min(2048, power_of_two(k, 16)), num_warps=4)
    return out
