"""A counter RNG: the same (seed, frame, codebook, index) gives the same number on every device and batch.

Philox 4x32 with ten rounds, in int64 arithmetic so that it runs on any torch device and inside a graph.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rhapsode.nn import kernels

BELOW_ONE = 1 - 2**-24
"""The largest float32 below 1: what rounds up to 1 becomes this."""

_MASK = 0xFFFFFFFF
_ROUNDS = 10
_MUL = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
    """Four 32-bit words, as int64, for each broadcast element of counter and key."""
    c0, c1, c2, c3 = counter
    for k0, k1 in zip(*map(_round_keys, key, _WEYL), strict=True):
        p0, p1 = c0 * _MUL[0], c2 * _MUL[1]
        high0, high1 = (p0 >> 32) & _MASK, (p1 >> 32) & _MASK
        c0, c1, c2, c3 = high1 ^ (c1 ^ k0), p1 & _MASK, high0 ^ (c3 ^ k1), p0 & _MASK
    return c0, c1, c2, c3


def _round_keys(key: Tensor, weyl: int) -> tuple[Tensor, ...]:
    turns = torch.arange(0, _ROUNDS * weyl, weyl, device=key.device)
    return ((key[..., None] + turns) & _MASK).unbind(-1)


def uniform(seeds: Tensor, steps: Tensor, codebook: int, n: int) -> Tensor:
    """`[B, n]` numbers in the open interval (0, 1), one stream per seed, frame and codebook."""
    return _unit(_words(seeds, steps, codebook, n)[0])


def normal(seeds: Tensor, steps: Tensor, codebook: int, n: int) -> Tensor:
    """`[B, n]` numbers of a standard normal distribution, by Box and Muller; n is even."""
    if kernels.on(seeds):
        from rhapsode.nn.kernels.gpu import noise

        return noise.normal(seeds, steps, codebook, n)
    first, second = map(_unit, _words(seeds, steps, codebook, n // 2)[:2])
    radius, angle = (-2.0 * first.log()).sqrt_(), second * (2.0 * math.pi)
    return torch.cat((radius * angle.cos(), radius * angle.sin()), dim=1)


def _words(seeds: Tensor, steps: Tensor, codebook: int, n: int) -> tuple[Tensor, ...]:
    index = torch.arange(n, device=seeds.device)[None, :]
    zero = torch.zeros_like(index)
    frame = (steps & _MASK)[:, None] + zero
    key = ((seeds & _MASK)[:, None] + zero, ((seeds >> 32) & _MASK)[:, None] + zero)
    return philox((index + zero, frame, zero + codebook, zero), key)


def _unit(word: Tensor) -> Tensor:
    """32 bits as a number in (0, 1): 24 bits fit a float32 exactly, and the half step keeps both ends out."""
    return (((word >> 8).to(torch.float32) + 0.5) * (1.0 / (1 << 24))).clamp_(max=BELOW_ONE)
