"""A linear layer of a few dozen rows in two steps: partial products, then their sum with residual and next norm.

With so few rows a product is bound by the latency of its long sums. Cut into shorter sums it takes less time, and the
norm's kernel, which follows anyway, adds up the partial sums.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.nn import kernels
from rhapsode.nn.kernels.norm import rms_norm_reference
from rhapsode.nn.kernels.weight import Norm

SHARE = 512
"""Inputs of one partial product."""
MAX_ROWS = 32


def split_product(x: Tensor, weight: Tensor) -> Tensor:
    """Returns the product of `x [..., K]` and `weight [N, K]` as partial sums `[K / SHARE, rows, N]` in float32."""
    rows = x.reshape(-1, x.shape[-1])
    if kernels.on(x):
        from rhapsode.nn.kernels.gpu import split

        return split.split_product(rows, weight, SHARE)
    return split_product_reference(rows, weight)


def split_product_reference(rows: Tensor, weight: Tensor) -> Tensor:
    shares = zip(rows.float().split(SHARE, dim=1), weight.float().split(SHARE, dim=1), strict=True)
    return torch.stack([some @ part.T for some, part in shares])


def add_and_norm(x: Tensor, parts: Tensor, norm: Norm | None) -> Tensor:
    """Adds partial sums to the residual `x [..., N]`, in place; returns its RMS norm, or `x` itself without a norm."""
    if kernels.on(x) and x.is_contiguous():
        from rhapsode.nn.kernels.gpu import split

        return split.add_and_norm(x, parts, norm)
    return add_and_norm_reference(x, parts, norm)


def add_and_norm_reference(x: Tensor, parts: Tensor, norm: Norm | None) -> Tensor:
    x.copy_(x.float() + parts.sum(0).view(x.shape))
    return x if norm is None else rms_norm_reference(x, norm.weight, norm.eps)
