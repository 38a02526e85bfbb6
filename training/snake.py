"""SnakeBeta with one kernel for forward and one for backward; plain PyTorch on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # a CPU does without
    triton = None


def snake(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """`x [B, C, T] + sin(e^alpha x)^2 / e^beta`."""
    if x.is_cuda and triton is not None:
        return _Snake.apply(x.contiguous(), alpha, beta)
    return x + torch.sin(x * alpha.exp()[:, None]).square() / (beta.exp() + 1e-9)[:, None]


class _Snake(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        out = torch.empty_like(x)
        batch, channels, length = x.shape
        block = min(1024, max(64, triton.next_power_of_2(length)))
        _forward[(batch * channels, triton.cdiv(length, block))](x, alpha, beta, out, channels, length, BLOCK=block)
        ctx.save_for_backward(x, alpha, beta)
        ctx.block = block
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, alpha, beta = ctx.saved_tensors
        batch, channels, length = x.shape
        blocks = triton.cdiv(length, ctx.block)
        to_x = torch.empty_like(x)
        parts = torch.empty(2, batch, channels, blocks, device=x.device)  # summed apart: in the same order each time
        _backward[(batch * channels, blocks)](
            x, alpha, beta, grad.contiguous(), to_x, parts[0], parts[1], channels, length, blocks, BLOCK=ctx.block
        )
        to_alpha, to_beta = parts.sum((1, 3))
        return to_x, to_alpha, to_beta


if triton is not None:

    @triton.jit
    def _wave(alpha, beta, channel):
        frequency = tl.exp(tl.load(alpha + channel).to(tl.float32))
        return frequency, 1.0 / (tl.exp(tl.load(beta + channel).to(tl.float32)) + 1e-9)

    @triton.jit
    def _forward(x, alpha, beta, out, channels, length, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        there = column < length
        frequency, size = _wave(alpha, beta, row % channels)
        at = row.to(tl.int64) * length + column
        value = tl.load(x + at, mask=there, other=0.0).to(tl.float32)
        sine = tl.sin(value * frequency)
        tl.store(out + at, (value + size * sine * sine).to(out.dtype.element_ty), mask=there)

    @triton.jit
    def _backward(x, alpha, beta, grad, to_x, to_alpha, to_beta, channels, length, blocks, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        there = column < length
        frequency, size = _wave(alpha, beta, row % channels)
        at = row.to(tl.int64) * length + column
        value = tl.load(x + at, mask=there, other=0.0).to(tl.float32)
        slope = tl.load(grad + at, mask=there, other=0.0).to(tl.float32)
        sine = tl.sin(value * frequency)
        turn = 2 * sine * tl.cos(value * frequency) * frequency * size
        tl.store(to_x + at, (slope * (1 + turn)).to(to_x.dtype.element_ty), mask=there)
        part = row.to(tl.int64) * blocks + tl.program_id(1)
        tl.store(to_alpha + part, tl.sum(slope * value * turn))
        tl.store(to_beta + part, tl.sum(-slope * sine * sine * size))
