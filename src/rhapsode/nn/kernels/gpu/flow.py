"""A guided Euler step in one launch: one program a row, which holds all of it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import after_predecessor, options, power_of_two


@triton.jit
def _euler(
    x, velocity, lengths, strengths, out, rows, width, length_row, BLOCK: tl.constexpr, OVERLAP: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < width
    after_predecessor(OVERLAP)
    told = tl.load(velocity + row * width + at, mask=inside, other=0.0).to(tl.float32)
    untold = tl.load(velocity + (rows + row) * width + at, mask=inside, other=0.0).to(tl.float32)
    before = tl.load(x + row * width + at, mask=inside, other=0.0)
    length = tl.load(lengths + row * length_row)
    strength = tl.load(strengths + row)
    untold *= tl.sum(told * untold, axis=0) / (tl.sum(untold * untold, axis=0) + 1e-8)
    tl.store(out + row * width + at, before - length * (untold + strength * (told - untold)), mask=inside)


def euler(x: Tensor, velocity: Tensor, lengths: Tensor, strength: Tensor) -> Tensor:
    """`x [B, ...]` float32, `velocity [2 * B, ...]`, `lengths [B]` of any stride."""
    out = torch.empty_like(x)
    rows, width = len(x), x[0].numel()
    _euler[(rows,)](
        x, velocity, lengths, strength, out, rows, width, lengths.stride(0), BLOCK=power_of_two(width, 16), num_warps=4,
        **options(),
    )  # fmt: skip
    return out
