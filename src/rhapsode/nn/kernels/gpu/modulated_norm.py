"""Gated residual, layer norm and modulation: one program per row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import options, power_of_two, wait_for_previous


@triton.jit
def _modulated_norm(
    x, update, gate, scale, shift, out, dim, eps, ADDED: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < dim
    scales = tl.load(scale + at, mask=inside, other=0.0)
    shifts = tl.load(shift + at, mask=inside, other=0.0)
    wait_for_previous(OVERLAP)
    wide = tl.load(x + row * dim + at, mask=inside, other=0.0)
    if ADDED:
        new = tl.load(update + row * dim + at, mask=inside, other=0.0).to(tl.float32)
        wide += new * tl.load(gate + at, mask=inside, other=0.0)
        tl.store(x + row * dim + at, wide, mask=inside)
    mean = tl.sum(wide, axis=0) / dim
    centred = tl.where(inside, wide - mean, 0.0)
    normed = centred * tl.rsqrt(tl.sum(centred * centred, axis=0) / dim + eps)
    tl.store(out + row * dim + at, (normed * scales + shifts).to(out.dtype.element_ty), mask=inside)


def modulated_norm(
    x: Tensor, scale: Tensor, shift: Tensor, eps: float, dtype: torch.dtype, added: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor]:
    """See `kernels.modulated_norm`. If an update and its gate are `added`, overwrites `x`, which is float32."""
    out = torch.empty_like(x, dtype=dtype)
    dim = x.shape[-1]
    block, rows = power_of_two(dim), x.numel() // dim
    update, gate = (x, x) if added is None else added
    _modulated_norm[(rows,)](
        x, update, gate, scale, shift, out, dim, eps,
        ADDED=added is not None, BLOCK=block, num_warps=min(8, max(1, block // 256)), **options(rows),
    )  # fmt: skip
    return x, out
