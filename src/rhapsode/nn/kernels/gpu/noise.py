"""Random numbers in one launch, equal to those of `nn.philox`; normal ones are so up to the rounding of a sine."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import blocks, options, power_of_two, wait_for_previous


@triton.jit
def unit_interval(word):
    """Maps 32 random bits to (0, 1), as `nn.philox` does."""
    uniform = ((word >> 8).to(tl.int32).to(tl.float32) + 0.5) * (1.0 / (1 << 24))
    return tl.minimum(uniform, 1.0 - 1.0 / (1 << 24))


@triton.jit(do_not_specialize=["book"])
def _normal(seeds, steps, out, book, n, BLOCK: tl.constexpr, OVERLAP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    index = tl.arange(0, BLOCK)
    zero = tl.zeros_like(index)
    wait_for_previous(OVERLAP)
    step = (tl.load(steps + row) & 0xFFFFFFFF).to(tl.uint32).to(tl.int32, bitcast=True)
    first, second, _, _ = tl.philox(tl.load(seeds + row), index, zero + step, zero + book, zero)
    radius, angle = tl.sqrt(-2.0 * tl.log(unit_interval(first))), unit_interval(second) * 6.283185307179586
    out += row * n + index
    pairs = (n + 1) // 2
    tl.store(out, radius * tl.cos(angle), mask=index < pairs)
    tl.store(out + pairs, radius * tl.sin(angle), mask=index < n - pairs)


@triton.jit(do_not_specialize=["book"])
def _uniform(seeds, steps, out, book, n, BLOCK: tl.constexpr, OVERLAP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    zero = tl.zeros_like(index)
    wait_for_previous(OVERLAP)
    step = (tl.load(steps + row) & 0xFFFFFFFF).to(tl.uint32).to(tl.int32, bitcast=True)
    word, _, _, _ = tl.philox(tl.load(seeds + row), index, zero + step, zero + book, zero)
    tl.store(out + row * n + index, unit_interval(word), mask=index < n)


def uniform(seeds: Tensor, steps: Tensor, codebook: int, n: int) -> Tensor:
    out = torch.empty(len(seeds), n, device=seeds.device)
    block = min(1024, power_of_two(n, 16))
    grid = (len(seeds), blocks(n, block))
    _uniform[grid](seeds, steps, out, codebook, n, BLOCK=block, num_warps=4, **options())
    return out


def normal(seeds: Tensor, steps: Tensor, codebook: int, n: int) -> Tensor:
    out = torch.empty(len(seeds), n, device=seeds.device)
    block = power_of_two((n + 1) // 2, 16)
    _normal[(len(seeds),)](seeds, steps, out, codebook, n, BLOCK=block, num_warps=4, **options())
    return out
