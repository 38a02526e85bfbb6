"""The sum of the embeddings of a frame's codes; a negative code adds nothing."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import blocks, options, wait_for_previous

BLOCK = 256


@triton.jit
def _frame_sum(codes, first, others, out, size, width, BOOKS: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < width
    wait_for_previous(OVERLAP)
    codes += row * (BOOKS + 1)
    code = tl.load(codes)
    start = tl.load(first + code * width + at, mask=inside & (code >= 0), other=0.0)
    sums = tl.zeros((BLOCK,), tl.float32)
    for book in tl.static_range(BOOKS):
        code = tl.load(codes + 1 + book)
        known = inside & (code >= 0)
        sums += tl.load(others + (book * size + code) * width + at, mask=known, other=0.0).to(tl.float32)
    result = start.to(tl.float32) + sums.to(start.dtype).to(tl.float32)
    tl.store(out + row * width + at, result.to(start.dtype), mask=inside)


def frame_sum(codes: Tensor, first: Tensor, others: Tensor) -> Tensor:
    batch = codes.shape[0]
    books, size, width = others.shape
    out = first.new_empty(batch, width)
    _frame_sum[(batch, blocks(width, BLOCK))](
        codes.contiguous(), first, others, out, size, width, BOOKS=books, BLOCK=BLOCK, num_warps=1, **options(batch)
    )
    return out
