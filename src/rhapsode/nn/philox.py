"""A counter-based random number generator: Philox 4x32 with ten rounds.

A number depends on (seed, frame, codebook, index) alone, not on the device or the batch. All arithmetic is in int64, so
it runs on any torch device and inside a CUDA graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from rhapsode.nn import kernels

Draw = Callable[[Tensor, Tensor, int, int], Tensor]

MASK = 0xFFFFFFFF
"""The lower 32 bits."""

_BELOW_ONE = 1 - 2**-24  # the largest float32 below 1
_ROUNDS = 10
_MUL = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
    """Returns four 32-bit words, as int64, for each broadcast element of counter and key."""
    c0, c1, c2, c3 = counter
    for k0, k1 in zip(*map(_round_keys, key, _WEYL), strict=True):
        p0, p1 = c0 * _MUL[0], c2 * _MUL[1]
        high0, high1 = (p0 >> 32) & MASK, (p1 >> 32) & MASK
        c0, c1, c2, c3 = high1 ^ (c1 ^ k0), p1 & MASK, high0 ^ (c3 ^ k1), p0 & MASK
    return c0, c1, c2, c3


def _round_keys(key: Tensor, weyl: int) -> tuple[Tensor, ...]:
    offsets = torch.arange(0, _ROUNDS * weyl, weyl, device=key.device)
    return ((key[..., None] + offsets) & MASK).unbind(-1)


def uniform(seeds: Tensor, steps: Tensor, codebook: int, n: int) -> Tensor:
    """Returns `[B, n]` numbers in the open interval (0, 1), an independent stream per seed, frame and codebook."""
    if kernels.on(seeds):
        from rhapsode.nn.kernels.gpu import noise

        return noise.uniform(seeds.contiguous(), steps.contiguous(), codebook, n)
    return unit_interval(_words(seeds, steps, codebook, n)[0])


def normal(seeds: Tensor, steps: Tensor, codebook: int, n: int) -> Tensor:
    """Returns `[B, n]` numbers of the standard normal distribution, by the Box-Muller transform."""
    if kernels.on(seeds):
        from rhapsode.nn.kernels.gpu import noise

        return noise.normal(seeds, steps, codebook, n)
    first, second = map(unit_interval, _words(seeds, steps, codebook, (n + 1) // 2)[:2])
    radius, angle = (-2.0 * first.log()).sqrt_(), second * (2.0 * math.pi)
    return torch.cat((radius * angle.cos(), radius * angle.sin()), dim=1)[:, :n]


def each_step(draw: Draw, seeds: Tensor, steps: Tensor, n: int) -> Tensor:
    """Returns the `n` numbers that `uniform` or `normal` draws at each of the steps `[B, T]`, `[B, T, n]`."""
    return draw(seeds[:, None].expand_as(steps).flatten(), steps.flatten(), 0, n).view(*steps.shape, n)


def _words(seeds: Tensor, steps: Tensor, codebook: int, n: int) -> tuple[Tensor, ...]:
    index = torch.arange(n, device=seeds.device)[None, :]
    zero = torch.zeros_like(index)
    frame = (steps & MASK)[:, None] + zero
    key = ((seeds & MASK)[:, None] + zero, ((seeds >> 32) & MASK)[:, None] + zero)
    return philox((index + zero, frame, zero + codebook, zero), key)


def unit_interval(word: Tensor) -> Tensor:
    """Maps 32 bits to (0, 1): 24 bits fit a float32 exactly, and the half step excludes both ends."""
    return (((word >> 8).to(torch.float32) + 0.5) * (1.0 / (1 << 24))).clamp_(max=_BELOW_ONE)
