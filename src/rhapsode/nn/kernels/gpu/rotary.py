"""Cosines and sines of positions, in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import options, power_of_two

POSITIONS = 4
"""Positions of one program."""


@triton.jit(do_not_specialize=["count"])
def _angles(
    positions, inv_freq, cos, sin, count, scale,
    HALF: tl.constexpr, BLOCK: tl.constexpr, POSITIONS: tl.constexpr, ROUNDED: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    which = tl.program_id(0) * POSITIONS + tl.arange(0, POSITIONS)[:, None]
    channel = tl.arange(0, BLOCK)[None, :]
    known = (which < count) & (channel < HALF)
    position = tl.load(positions + which, mask=which < count, other=0).to(tl.float32)
    angle = position * tl.load(inv_freq + channel, mask=channel < HALF, other=0.0)
    straight, across = tl.cos(angle) * scale, tl.sin(angle) * scale
    if ROUNDED:
        straight, across = straight.to(tl.bfloat16).to(tl.float32), across.to(tl.bfloat16).to(tl.float32)
    at = which.to(tl.int64) * (2 * HALF) + channel
    tl.store(cos + at, straight.to(cos.dtype.element_ty), mask=known)
    tl.store(cos + at + HALF, straight.to(cos.dtype.element_ty), mask=known)
    tl.store(sin + at, (-across).to(sin.dtype.element_ty), mask=known)
    tl.store(sin + at + HALF, across.to(sin.dtype.element_ty), mask=known)


def angles(
    positions: Tensor, inv_freq: Tensor, scale: float, rounded: bool, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Returns the `rotary_angles` of `positions [B, T]`: cosines and signed sines, each `[B, T, 1, D]`."""
    positions, half = positions.contiguous(), len(inv_freq)
    cos, sin = torch.empty(2, *positions.shape, 1, 2 * half, dtype=dtype, device=positions.device)
    count = positions.numel()
    _angles[(-(-count // POSITIONS),)](
        positions, inv_freq, cos, sin, count, scale,
        HALF=half,
        BLOCK=power_of_two(half),
        POSITIONS=POSITIONS,
        ROUNDED=rounded,
        num_warps=1,
        **options(),  # it does not overlap: attention loads the angles before it waits
    )  # fmt: skip
    return cos, sin
