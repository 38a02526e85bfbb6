"""The activations between the layers of a feed-forward network: the gate of SwiGLU, or GELU."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from rhapsode.nn import kernels

Gelu = Literal["gelu", "gelu_tanh"]
"""GELU, exactly or by the formula with a hyperbolic tangent."""


def gelu(x: Tensor, kind: Gelu) -> Tensor:
    return F.gelu(x, approximate="tanh" if kind == "gelu_tanh" else "none")


def silu_mul(x: Tensor) -> Tensor:
    """Returns `silu(gate) * value`, [..., F], of `x [..., 2 * F]`: gates, then values."""
    if kernels.on(x) and x.is_contiguous():
        from rhapsode.nn.kernels.gpu import activation

        return activation.silu_mul(x)
    return silu_mul_reference(x)


def silu_mul_reference(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up
