"""Linear layers that use the fused kernels, with quantised or unquantised weights."""

from __future__ import annotations

from torch import Tensor, nn

from rhapsode.nn.kernels.activation import Gelu
from rhapsode.nn.kernels.linear import fused_linear
from rhapsode.nn.kernels.weight import Float8Weight, Norm, Weight
from rhapsode.nn.norm import RMSNorm
from rhapsode.nn.quantised import Int8Quantised, Quantised


class FusedLinear(nn.Linear):
    """Several linear layers of one input as one; `sizes` are their output widths."""

    def __init__(self, inputs: int, sizes: tuple[int, ...], bias: bool = False) -> None:
        super().__init__(inputs, sum(sizes), bias=bias)
        self.sizes = sizes


def weight_of(layer: nn.Linear) -> Weight:
    """Returns the weight of a layer in the form that kernels take."""
    weight: nn.Module | Tensor = layer.weight
    return weight.packed if isinstance(weight, Quantised | Int8Quantised) else layer.weight


def float8_weight_of(layer: nn.Linear) -> Float8Weight:
    """Returns the weight of a layer that is known to have 8 bits."""
    weight = weight_of(layer)
    assert isinstance(weight, Float8Weight)
    return weight


def rms_norm_of(module: nn.Module) -> Norm:
    """Returns an RMS norm in the form that kernels take."""
    assert isinstance(module, RMSNorm)
    return Norm(module.weight, module.eps)


def linear(
    x: Tensor,
    layer: nn.Linear,
    *,
    gated: bool = False,
    activation: Gelu | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """Applies `layer`; the other arguments are those of `fused_linear`."""
    return fused_linear(x, weight_of(layer), layer.bias, gated=gated, activation=activation, residual=residual)


def normed_linear(
    x: Tensor,
    norm: nn.Module,
    weight: Weight,
    bias: Tensor | None = None,
    *,
    gated: bool = False,
    activation: Gelu | None = None,
) -> Tensor:
    """Applies `norm` and a linear layer, fused where the norm is an RMS norm or a layer norm."""
    if isinstance(norm, RMSNorm):
        fused = Norm(norm.weight, norm.eps)
    elif isinstance(norm, nn.LayerNorm) and norm.bias is not None:
        fused = Norm(norm.weight, norm.eps, norm.bias)
    else:
        return fused_linear(norm(x), weight, bias, gated=gated, activation=activation)
    return fused_linear(x, weight, bias, norm=fused, gated=gated, activation=activation)
