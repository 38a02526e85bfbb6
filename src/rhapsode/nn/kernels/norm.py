"""Normalisation of the last axis."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from rhapsode.nn import kernels
from rhapsode.nn.kernels.weight import Norm


def normalise(x: Tensor, norm: Norm) -> Tensor:
    """Applies an RMS norm or a layer norm."""
    if norm.bias is not None:
        return F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, norm.eps)
    return rms_norm(x, norm.weight, norm.eps)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Normalises the last axis in float32, and multiplies by `weight` in the input's dtype."""
    if kernels.on(x) and x.is_contiguous():
        from rhapsode.nn.kernels.gpu import norm

        return norm.rms_norm(x, weight, eps)
    return rms_norm_reference(x, weight, eps)


def rms_norm_reference(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.float()
    mean = wide.square().sum(-1, keepdim=True).div_(x.shape[-1])  # on a CPU `F.rms_norm` and `mean` cost twice as much
    return (wide * mean.add_(eps).rsqrt_()).to(x.dtype) * weight
