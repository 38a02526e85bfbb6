"""A causal depthwise convolution between two snakes."""

from __future__ import annotations

from torch import Tensor

from rhapsode.nn import kernels
from rhapsode.nn.kernels.snake import SnakeWeights


def snaked_depthwise(
    x: Tensor,
    tails: Tensor,
    slots: Tensor,
    before: SnakeWeights,
    weight: Tensor,
    bias: Tensor | None,
    dilation: int,
    after: SnakeWeights,
) -> Tensor | None:
    """Returns `after(conv(before(x)))` of `x [B, C, T]`, and advances the slots' `tails [S, tail, C]`.

    Returns `None` where no kernel supports the arguments.
    """
    depthwise = weight.shape[0] == x.shape[1] and weight.shape[1] == 1
    if not kernels.on(x) or not depthwise or bias is None or not x.is_contiguous():
        return None
    from rhapsode.nn.kernels.gpu import depthwise as gpu

    return gpu.snaked_depthwise(x, tails, slots, before, weight, bias, dilation, after)
