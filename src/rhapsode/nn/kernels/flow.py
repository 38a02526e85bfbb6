"""One Euler step of flow matching with classifier-free guidance."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.nn import kernels


def euler(x: Tensor, velocity: Tensor, lengths: Tensor, guidance: Tensor) -> Tensor:
    """Moves `x [B, ...]` by `lengths [B]` against the guided velocity.

    The first half of `velocity [2 * B, ...]` is conditional, the second unconditional; `guidance [B]` is the scale.
    """
    if kernels.on(x) and x.dtype == torch.float32 and x.is_contiguous() and velocity.is_contiguous():
        from rhapsode.nn.kernels.gpu import flow

        return flow.euler(x, velocity, lengths, guidance)
    return euler_reference(x, velocity, lengths, guidance)


def euler_reference(x: Tensor, velocity: Tensor, lengths: Tensor, guidance: Tensor) -> Tensor:
    conditional, unconditional = velocity.to(x.dtype).chunk(2)
    return x - lengths.view(-1, *[1] * (x.ndim - 1)) * guide(conditional, unconditional, guidance)


def guide(conditional: Tensor, unconditional: Tensor, guidance: Tensor) -> Tensor:
    """CFG-zero*: scales `unconditional` to be nearest to `conditional`, then extrapolates away from it."""
    flat, base = conditional.flatten(1), unconditional.flatten(1)
    base = base * ((flat * base).sum(1, keepdim=True) / (base.square().sum(1, keepdim=True) + 1e-8))
    return torch.addcmul(base, flat - base, guidance[:, None].to(base.dtype)).view_as(conditional)
