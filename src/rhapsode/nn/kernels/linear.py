"""A linear with what comes before and after it in a decoder layer: the norm of its input, a gate, a residual."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.nn import kernels
from rhapsode.nn.kernels.activation import silu_mul, silu_mul_reference
from rhapsode.nn.kernels.norm import rms_norm, rms_norm_reference
from rhapsode.nn.quantised import Quantised, Weight

FEW_ROWS = 16
"""Up to so many rows a matrix is read by one kernel; past this cuBLAS is as fast."""

_few_rows = ContextVar("few_rows", default=FEW_ROWS)  # each loop's own: engines share this process

Norm = tuple[Tensor, float]
"""The weight and the epsilon of an RMS norm."""


def linear(x: Tensor, layer: nn.Linear) -> Tensor:
    """A plain one."""
    return fused_linear(x, layer.weight, layer.bias)


@contextmanager
def few_rows(most: int) -> Iterator[None]:
    """Another limit, where what is around the products is much of the work."""
    before = _few_rows.set(most)
    try:
        yield
    finally:
        _few_rows.reset(before)


def fused_linear(
    x: Tensor,
    weight: Weight,
    bias: Tensor | None = None,
    *,
    norm: Norm | None = None,
    gated: bool = False,
    residual: Tensor | None = None,
) -> Tensor:
    """`x [..., K]` by `weight [N, K]`: `x` normed first where `norm` is given, `residual [..., N]` added in the end.

    `gated`: the rows of `weight` are gates, then values, and the result is `silu(gate) * value`, [..., N / 2].
    `residual` is given up: on a GPU the result may take its place. A weight may be quantised; sums are float32.

    Few rows are one kernel, in which each row is computed as if it were alone. Many rows are cuBLAS between small
    kernels; how it adds up may depend on how many rows there are.
    """
    if not kernels.on(x):
        return fused_linear_reference(x, weight, bias, norm=norm, gated=gated, residual=residual)
    from rhapsode.nn.kernels.gpu import linear

    x = x.contiguous()
    if isinstance(weight, Quantised) and not linear.serves(x, weight, residual):
        weight = weight.dequantised(x.dtype) if weight.dense is None else weight.dense
    rows = x.numel() // x.shape[-1]
    if rows <= _few_rows.get() and linear.serves(x, weight, residual):
        return linear.skinny(x, weight, bias, norm=norm, gated=gated, residual=residual)
    assert isinstance(weight, Tensor)
    if norm is not None:
        x = rms_norm(x, *norm)
    if residual is not None and bias is None and not gated and residual.is_contiguous():
        # The product is added where the residual is: no kernel of its own, and no rounding in between.
        residual.view(-1, residual.shape[-1]).addmm_(x.reshape(-1, x.shape[-1]), weight.t())
        return residual
    x = F.linear(x, weight, bias)
    if gated:
        x = silu_mul(x)
    return x if residual is None else residual + x


def fused_linear_reference(
    x: Tensor,
    weight: Weight,
    bias: Tensor | None = None,
    *,
    norm: Norm | None = None,
    gated: bool = False,
    residual: Tensor | None = None,
) -> Tensor:
    if norm is not None:
        x = rms_norm_reference(x, *norm)
    x = F.linear(x, weight.dequantised(x.dtype) if isinstance(weight, Quantised) else weight, bias)
    if gated:
        x = silu_mul_reference(x)
    return x if residual is None else residual + x
