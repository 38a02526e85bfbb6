"""Root-mean-square normalisation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.nn import kernels


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Over the last axis, in float32 whatever the input is, and scaled in the input's own type."""
    if kernels.on(x) and x.is_contiguous():
        from rhapsode.nn.kernels.gpu import norm

        return norm.rms_norm(x, weight, eps)
    return rms_norm_reference(x, weight, eps)


def rms_norm_reference(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    if x.dtype == torch.float32:  # where nothing is rounded in between it is one call
        return F.rms_norm(x, x.shape[-1:], weight, eps)
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * scale).to(x.dtype) * weight
