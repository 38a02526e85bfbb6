"""Decodes residual codes to vectors: each is the sum of one row per codebook."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import options, power_of_two, wait_for_previous


@triton.jit(do_not_specialize=["length"])
def _codebook_sum(
    codes, tables, out, length, out_batch,
    BOOKS: tl.constexpr, CODES: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    batch = row // length
    c = tl.arange(0, BLOCK)
    ok = c < WIDTH
    wait_for_previous(OVERLAP)
    acc = tl.zeros((BLOCK,), tl.float32)
    for book in tl.static_range(BOOKS):
        code = tl.load(codes + row * BOOKS + book).to(tl.int32)
        code = tl.minimum(
            tl.maximum(code, 0), CODES - 1
        )  # an invalid code cannot be reported from here, but it must not read outside
        acc += tl.load(tables + (book * CODES + code) * WIDTH + c, mask=ok, other=0.0).to(tl.float32)
    at = batch * out_batch + (row - batch * length) * WIDTH
    tl.store(out + at + c, acc.to(out.dtype.element_ty), mask=ok)


def codebook_sum(codes: Tensor, tables: Tensor, out: Tensor) -> None:
    """Writes the sums of `codes [B, n, G]` in `tables [G, K, C]` to `out [B, n, C]`, of any batch stride."""
    codes = codes.contiguous()
    batch, length, books = codes.shape
    _, size, width = tables.shape
    _codebook_sum[(batch * length,)](
        codes, tables, out, length, out.stride(0),
        BOOKS=books, CODES=size, WIDTH=width, BLOCK=power_of_two(width), num_warps=4, **options(),
    )  # fmt: skip
