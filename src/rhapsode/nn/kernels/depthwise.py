"""A causal depthwise convolution between two snakes."""

from __future__ import annotations

from torch import Tensor, nn

from rhapsode.nn import kernels

Snake = tuple[Tensor, Tensor]
"""The frequency and the size of each channel, [C, 1]."""


def snaked_depthwise(
    x: Tensor, tails: Tensor, slots: Tensor, before: Snake, conv: nn.Conv1d, after: Snake
) -> Tensor | None:
    """`after(conv(before(x)))` of slots that go on from their `tails [S, tail, C]`, which move on; `x [B, C, T]`.

    `None` where there is no kernel for it: then the modules are the way.
    """
    depthwise = conv.groups == conv.in_channels == conv.out_channels
    if not kernels.on(x) or not depthwise or conv.bias is None or not x.is_contiguous():
        return None
    from rhapsode.nn.kernels.gpu import depthwise as gpu

    return gpu.snaked_depthwise(x, tails, slots, before, conv.weight, conv.bias, conv.dilation[0], after)
