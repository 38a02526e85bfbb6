"""One Euler step with classifier-free guidance in one launch: one program per row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import options, power_of_two, wait_for_previous


@triton.jit
def _euler(
    x, velocity, changes, scales, out, rows, width, change_row, scale_row,
    FIT: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < width
    wait_for_previous(OVERLAP)
    conditional = tl.load(velocity + row * width + at, mask=inside, other=0.0).to(tl.float32)
    unconditional = tl.load(velocity + (rows + row) * width + at, mask=inside, other=0.0).to(tl.float32)
    before = tl.load(x + row * width + at, mask=inside, other=0.0)
    change = tl.load(changes + row * change_row)
    scale = tl.load(scales + row * scale_row)
    if FIT:
        fit = tl.sum(conditional * unconditional, axis=0)
        unconditional *= fit / (tl.sum(unconditional * unconditional, axis=0) + 1e-8)
    guided = unconditional + scale * (conditional - unconditional)
    tl.store(out + row * width + at, before + change * guided, mask=inside)


def euler(x: Tensor, velocity: Tensor, changes: Tensor, scale: Tensor, fit: bool) -> Tensor:
    """See `kernels.flow.euler`: `x` is float32, `changes` and `scale` have any stride; `fit`: guidance is CFG-zero*."""
    out = torch.empty_like(x)
    rows, width = len(x), x[0].numel()
    _euler[(rows,)](
        x, velocity, changes, scale, out, rows, width, changes.stride(0), scale.stride(0),
        FIT=fit, BLOCK=power_of_two(width, 16), num_warps=4, **options(),
    )  # fmt: skip
    return out
