"""A linear layer fused with what surrounds it in a decoder layer: the norm of its input, an activation, a residual."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.nn import kernels
from rhapsode.nn.kernels.activation import Gelu, gelu, silu_mul, silu_mul_reference
from rhapsode.nn.kernels.int8 import Int8Weight, int8_linear
from rhapsode.nn.kernels.norm import normalise, rms_norm_reference
from rhapsode.nn.kernels.weight import Float8Weight, Norm, Weight

SMALL_BATCH = 16
"""Up to this many rows, one kernel computes the whole layer; above, cuBLAS between small kernels is faster."""


def fused_linear(
    x: Tensor,
    weight: Weight,
    bias: Tensor | None = None,
    *,
    norm: Norm | None = None,
    gated: bool = False,
    activation: Gelu | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """Multiplies `x [..., K]` by `weight [N, K]`, after `norm` of `x`, and adds `residual [..., N]`.

    `gated`: the rows of `weight` are gates, then values, and the result is `silu(gate) * value`, [..., N / 2]. Without
    a gate, `activation` is applied to the product.
    `residual` may be overwritten: on a GPU it may become the result. Sums are float32.

    A small batch is one kernel, which computes each row as if it were alone. A larger one is cuBLAS between small
    kernels, or `gpu.float8`, and the order of its sums may depend on the number of rows.
    """
    if not kernels.on(x) or isinstance(weight, Int8Weight):
        return fused_linear_reference(x, weight, bias, norm=norm, gated=gated, activation=activation, residual=residual)
    from rhapsode.nn.kernels.gpu import linear

    x = x.contiguous()
    small = x.numel() // x.shape[-1] <= SMALL_BATCH and (residual is None or residual.is_contiguous())
    plan = linear.plan_of(x, weight, bias, norm, gated, activation) if small else None
    if plan is None and isinstance(weight, Float8Weight) and not takes_float8(x):
        weight = weight.dequantised(x.dtype)
        plan = linear.plan_of(x, weight, bias, norm, gated, activation) if small else None
    if plan is not None:
        return linear.small_batch_linear(
            x, weight, bias, plan=plan, norm=norm, gated=gated, activation=activation, residual=residual
        )
    if isinstance(weight, Float8Weight):
        from rhapsode.nn.kernels.gpu.float8 import float8_linear

        return float8_linear(x, weight, bias, norm=norm, gated=gated, activation=activation, residual=residual)
    if norm is not None:
        x = normalise(x, norm)
    if residual is not None and bias is None and not gated and activation is None and residual.is_contiguous():
        # The product is added in place: no kernel of its own, and no rounding in between.
        residual.view(-1, residual.shape[-1]).addmm_(x.reshape(-1, x.shape[-1]), weight.t())
        return residual
    if activation == "gelu_tanh" and bias is not None and not gated and x.is_cuda:
        # cuBLAS computes this formula on its float32 sums: no kernel of its own, and no rounding in between.
        flat = torch._addmm_activation(bias, x.reshape(-1, x.shape[-1]), weight.t(), use_gelu=True)
        x, activation = flat.view(*x.shape[:-1], -1), None
    else:
        x = F.linear(x, weight, bias)
    if gated:
        x = silu_mul(x)
    if activation is not None:
        x = gelu(x, activation)
    return x if residual is None else residual + x


def takes_float8(x: Tensor) -> bool:
    """Returns whether GPU kernels multiply many rows of `x` by 8-bit weights without a wider copy of these."""
    if not kernels.on(x) or x.dtype == torch.float32:
        return False
    from rhapsode.nn.kernels.gpu.launch import reads_float8

    return reads_float8()


def fused_linear_reference(
    x: Tensor,
    weight: Weight,
    bias: Tensor | None = None,
    *,
    norm: Norm | None = None,
    gated: bool = False,
    activation: Gelu | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    if norm is not None:
        x = rms_norm_reference(x, norm.weight, norm.eps) if norm.bias is None else normalise(x, norm)
    if isinstance(weight, Int8Weight):
        x = int8_linear(x, weight, bias)
    else:
        x = F.linear(x, weight.dequantised(x.dtype) if isinstance(weight, Float8Weight) else weight, bias)
    if gated:
        x = silu_mul_reference(x)
    if activation is not None:
        x = gelu(x, activation)
    return x if residual is None else residual + x
