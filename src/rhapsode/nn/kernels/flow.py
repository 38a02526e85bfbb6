"""A guided Euler step of flow matching."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.nn import kernels


def euler(x: Tensor, velocity: Tensor, lengths: Tensor, strength: Tensor) -> Tensor:
    """`x [B, ...]` moved by `lengths [B]` against `velocity [2 * B, ...]`, whose first half is told something and whose
    second is not; each row is guided with its `strength [B]`."""
    if kernels.on(x) and x.dtype == torch.float32 and x.is_contiguous() and velocity.is_contiguous():
        from rhapsode.nn.kernels.gpu import flow

        return flow.euler(x, velocity, lengths, strength)
    return euler_reference(x, velocity, lengths, strength)


def euler_reference(x: Tensor, velocity: Tensor, lengths: Tensor, strength: Tensor) -> Tensor:
    told, untold = velocity.to(x.dtype).chunk(2)
    return x - lengths.view(-1, *[1] * (x.ndim - 1)) * guide(told, untold, strength)


def guide(told: Tensor, untold: Tensor, strength: Tensor) -> Tensor:
    """CFG-zero*: away from `untold`, scaled to be as near to `told` as it can be."""
    flat, base = told.flatten(1), untold.flatten(1)
    base = base * ((flat * base).sum(1, keepdim=True) / (base.square().sum(1, keepdim=True) + 1e-8))
    return torch.addcmul(base, flat - base, strength[:, None].to(base.dtype)).view_as(told)
