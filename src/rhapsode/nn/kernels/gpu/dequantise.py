"""Converts 8-bit weights to a wider dtype; each program converts a few rows."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import blocks, options, power_of_two, wait_for_previous

ROWS, MOST_COLUMNS = 4, 4096
"""The block of one program. With fewer rows, starting programs takes longer than reading weights."""


@triton.jit
def _dequantise(
    values, scales, out, rows, K: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at, inside = row[:, None] * K + column[None, :], (row < rows)[:, None] & (column < K)[None, :]
    wide = tl.load(values + at, mask=inside, other=0.0).to(tl.float32)
    wide *= tl.load(scales + row, mask=row < rows, other=0.0)[:, None]
    wait_for_previous(OVERLAP)
    tl.store(out + at, wide.to(out.dtype.element_ty), mask=inside)


def dequantised(values: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns `values [N, K]` times their `scales [N]`, in `dtype`."""
    rows, k = values.shape
    out = torch.empty(rows, k, dtype=dtype, device=values.device)
    block = min(MOST_COLUMNS, power_of_two(k, 16))
    _dequantise[(blocks(rows, ROWS), blocks(k, block))](
        values, scales, out, rows, K=k, ROWS=ROWS, BLOCK=block, num_warps=4, **options(rows, rows)
    )
    return out
