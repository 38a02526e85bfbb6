"""One Euler step of flow matching with classifier-free guidance."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rhapsode.nn import kernels

Guidance = Literal["plain", "zero-star"]
"""How two velocities become one: `plain` extrapolates from the unconditional velocity through the conditional one.
`zero-star` (CFG-zero*) first scales the unconditional velocity to be as close as possible to the conditional one."""


def euler(x: Tensor, velocity: Tensor, changes: Tensor, scale: Tensor, guidance: Guidance) -> Tensor:
    """Moves `x [B, ...]` along the guided velocity while time changes by `changes [B]`.

    The first half of `velocity [2 * B, ...]` is conditional, the second unconditional; `scale [B]` is the guidance
    scale, at which 1 is the conditional velocity alone.
    """
    if kernels.on(x) and x.dtype == torch.float32 and x.is_contiguous() and velocity.is_contiguous():
        from rhapsode.nn.kernels.gpu import flow

        return flow.euler(x, velocity, changes, scale, fit=guidance == "zero-star")
    return euler_reference(x, velocity, changes, scale, guidance)


def euler_reference(x: Tensor, velocity: Tensor, changes: Tensor, scale: Tensor, guidance: Guidance) -> Tensor:
    conditional, unconditional = velocity.to(x.dtype).chunk(2)
    return x + changes.view(-1, *[1] * (x.ndim - 1)) * guide(conditional, unconditional, scale, guidance)


def guide(conditional: Tensor, unconditional: Tensor, scale: Tensor, guidance: Guidance) -> Tensor:
    """Returns the guided velocity."""
    flat, base = conditional.flatten(1), unconditional.flatten(1)
    if guidance == "zero-star":
        base = base * ((flat * base).sum(1, keepdim=True) / (base.square().sum(1, keepdim=True) + 1e-8))
    return torch.addcmul(base, flat - base, scale[:, None].to(base.dtype)).view_as(conditional)
