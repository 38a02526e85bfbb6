"""Layer norm with parameters from outside, fused with the gated residual before it."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.nn import kernels


class Modulation(NamedTuple):
    """Scale and shift of a layer norm that has no weights of its own, `[dim]` each, in the dtype of the residual."""

    scale: Tensor
    shift: Tensor


class GatedUpdate(NamedTuple):
    """What is added to a residual: `update [..., dim]` times `gate [dim]`."""

    update: Tensor
    gate: Tensor


def modulated_norm(
    x: Tensor, modulation: Modulation, eps: float, dtype: torch.dtype, added: GatedUpdate | None = None
) -> tuple[Tensor, Tensor]:
    """Adds `added` to the residual `x [..., dim]`; returns the residual, and its norm, modulated and in `dtype`.

    The residual is float32 or float64, and so is all arithmetic. It may be overwritten.
    """
    if kernels.on(x) and x.is_contiguous() and (added is None or added.update.is_contiguous()):
        from rhapsode.nn.kernels.gpu.modulated_norm import modulated_norm as fused

        return fused(x, *modulation, eps, dtype, added)
    return modulated_norm_reference(x, modulation, eps, dtype, added)


def modulated_norm_reference(
    x: Tensor, modulation: Modulation, eps: float, dtype: torch.dtype, added: GatedUpdate | None = None
) -> tuple[Tensor, Tensor]:
    if added is not None:
        x = torch.addcmul(x, added.update.to(x.dtype), added.gate)
    normed = F.layer_norm(x, x.shape[-1:], eps=eps)
    return x, torch.addcmul(modulation.shift, normed, modulation.scale).to(dtype)
