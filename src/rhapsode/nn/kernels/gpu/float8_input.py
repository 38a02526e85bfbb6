"""Activations for products with 8-bit weights: each number is the sum of two 8-bit floats, with a scale per row.

Four bits and four more are as many as bfloat16 has. So tensor cores multiply 8-bit weights unconverted, at twice the
rate, with the precision of bfloat16: a number is exact down to a thousandth of the row's largest; below, its error is
less than a 200,000th of the largest.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import options, power_of_two, wait_for_previous
from rhapsode.nn.kernels.gpu.norm import rms_scale, rounded_times
from rhapsode.nn.kernels.gpu.split import add_parts
from rhapsode.nn.kernels.weight import FLOAT8, Norm


class Float8Input(NamedTuple):
    """Rows `[rows, K]`: each is the sum of two rows of 8-bit floats, times a scale."""

    halves: Tensor  # [rows, 2, K]: four bits of each number, and the four bits after them
    scales: Tensor  # [rows], float32


@triton.jit(do_not_specialize=["rows"])
def _float8_input(
    x, parts, weight, halves, scales, rows, dim, eps,
    PARTS: tl.constexpr, NORM: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < dim
    if NORM:
        weights = tl.load(weight + at, mask=inside, other=0.0)
    wait_for_previous(OVERLAP)
    wide = add_parts(x, parts, row, rows, dim, at, inside, PARTS)
    if NORM:
        wide = rounded_times(wide * rms_scale(wide, dim, eps), weights).to(tl.float32)
    largest = tl.maximum(tl.max(tl.abs(wide), axis=0), 1e-30)
    scale = tl.exp2(tl.ceil(tl.log2(largest / 448.0)))  # 448: the largest 8-bit float
    scaled = wide * (1.0 / scale)  # a power of two: no bit is lost
    high = scaled.to(tl.float8e4nv)
    tl.store(halves + row * 2 * dim + at, high, mask=inside)
    tl.store(halves + (row * 2 + 1) * dim + at, (scaled - high.to(tl.float32)).to(tl.float8e4nv), mask=inside)
    tl.store(scales + row, scale)


def float8_input(x: Tensor, norm: Norm | None = None, parts: Tensor | None = None) -> Float8Input:
    """Converts a contiguous `x [..., K]`, or its RMS norm; `parts [n, rows, K]` are added to it first, in place."""
    dim = x.shape[-1]
    rows, block = x.numel() // dim, power_of_two(dim)
    halves = torch.empty(rows, 2, dim, dtype=FLOAT8, device=x.device)
    scales = torch.empty(rows, dtype=torch.float32, device=x.device)
    _float8_input[(rows,)](
        x, scales if parts is None else parts, x if norm is None else norm.weight, halves, scales,
        rows, dim, 0.0 if norm is None else norm.eps,
        PARTS=0 if parts is None else len(parts), NORM=norm is not None, BLOCK=block,
        num_warps=min(8, max(1, block // 256)), **options(rows, rows),
    )  # fmt: skip
    return Float8Input(halves, scales)
