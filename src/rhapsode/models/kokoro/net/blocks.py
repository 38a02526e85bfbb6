"""The residual blocks of the predictor, the decoder and the generator, each styled by a vector."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.nn.adaptive_norm import AdaptiveInstanceNorm, masked_instance_norm
from rhapsode.nn.derived import Derived
from rhapsode.nn.kernels.snake import unit_snake
from rhapsode.nn.ragged import Ragged
from rhapsode.nn.time_conv import TimeConv1d

SLOPE = 0.2


class StyledBlock(nn.Module):
    """Two convolutions of three, each after a norm, added to the input. It may double the rate."""

    def __init__(self, inputs: int, outputs: int, style: int, *, doubles: bool = False) -> None:
        super().__init__()
        self.norm1 = AdaptiveInstanceNorm(style, inputs)
        self.norm2 = AdaptiveInstanceNorm(style, outputs)
        self.conv1 = nn.Conv1d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv1d(outputs, outputs, 3, padding=1)
        self.conv1x1 = nn.Conv1d(inputs, outputs, 1, bias=False) if inputs != outputs else None
        self.pool = (
            nn.ConvTranspose1d(inputs, inputs, 3, stride=2, padding=1, output_padding=1, groups=inputs)
            if doubles
            else None
        )

    @property
    def rate(self) -> int:
        return 1 if self.pool is None else 2

    def forward(self, x: Tensor, style: Tensor, ragged: Ragged) -> Tensor:
        """Maps `x [B, inputs, T]` to `[B, outputs, T * rate]`; what is beyond the end of an item means nothing."""
        y = F.leaky_relu(self.norm1(x, style, ragged), SLOPE)
        if self.pool is not None:
            ragged = ragged.scaled(2)
            y = ragged.cut(self.pool(y))
            x = x.repeat_interleave(2, dim=2)
        y = F.leaky_relu(self.norm2(self.conv1(y), style, ragged), SLOPE)
        shortcut = x if self.conv1x1 is None else self.conv1x1(x)
        return (self.conv2(y) + shortcut) / math.sqrt(2)


class SnakeBlock(Derived):
    """Pairs of a dilated and a plain convolution, each after a norm and a Snake, added to the input.

    A Snake, `x + sin(a x)^2 / a`, is `(y + sin(y)^2) / a` of `y = a x`. The norm before it multiplies by `a` and the
    convolution after it divides, which leaves two passes over the samples.
    """

    frequency1: Tensor  # [dilations, C]
    frequency2: Tensor

    def __init__(self, channels: int, kernel: int, dilations: Sequence[int], style: int) -> None:
        super().__init__()
        spread = [TimeConv1d(channels, channels, kernel, dilation=d, padding=kernel // 2 * d) for d in dilations]
        self.convs1 = nn.ModuleList(spread)
        self.convs2 = nn.ModuleList(TimeConv1d(channels, channels, kernel, padding=kernel // 2) for _ in dilations)
        self.adain1 = nn.ModuleList(AdaptiveInstanceNorm(style, channels) for _ in dilations)
        self.adain2 = nn.ModuleList(AdaptiveInstanceNorm(style, channels) for _ in dilations)
        self.alpha1 = nn.ParameterList(_alpha(channels) for _ in dilations)
        self.alpha2 = nn.ParameterList(_alpha(channels) for _ in dilations)

        self.register_buffer("frequency1", None, persistent=False)
        self.register_buffer("frequency2", None, persistent=False)

    def derive(self) -> None:
        """Moves the frequencies out of the Snakes; those that stay are 1, so that a second time changes nothing."""
        for name, convs, alphas in (
            ("frequency1", self.convs1, self.alpha1),
            ("frequency2", self.convs2, self.alpha2),
        ):
            found = torch.stack([alpha.detach().flatten() for alpha in alphas])
            held = getattr(self, name)
            setattr(self, name, found if held is None else held * found)
            for conv, alpha in zip(convs, alphas, strict=True):
                assert isinstance(conv, nn.Conv1d)
                conv.weight.data = conv.weight.data / alpha.detach()
                alpha.data = torch.ones_like(alpha)

    def forward(self, x: Tensor, style: Tensor, ragged: Ragged) -> Tensor:
        """Maps `x [B, C, T]` to the same shape; what is beyond the end of an item means nothing."""
        for i in range(len(self.convs1)):
            y = self.convs1[i](_snake(self.adain1[i], x, style, ragged, self.frequency1[i]))
            y = self.convs2[i](_snake(self.adain2[i], y, style, ragged, self.frequency2[i]))
            x = y.add_(x)
        return x


def _alpha(channels: int) -> nn.Parameter:
    """The frequency of a Snake, and the inverse of its size."""
    return nn.Parameter(Tensor(1, channels, 1))


def _snake(norm: nn.Module, x: Tensor, style: Tensor, ragged: Ragged, frequency: Tensor) -> Tensor:
    assert isinstance(norm, AdaptiveInstanceNorm)
    gain, bias = norm.affine(style)
    return unit_snake(masked_instance_norm(x, gain * frequency, bias * frequency, ragged))
