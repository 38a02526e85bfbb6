"""The residual blocks of the predictor, the decoder and the generator, each styled by a vector."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.nn.adaptive_norm import AdaptiveInstanceNorm
from rhapsode.nn.kernels.snake import snake_beta
from rhapsode.nn.ragged import Ragged

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


class SnakeBlock(nn.Module):
    """Pairs of a dilated and a plain convolution, each after a norm and a Snake, added to the input."""

    def __init__(self, channels: int, kernel: int, dilations: Sequence[int], style: int) -> None:
        super().__init__()
        spread = [nn.Conv1d(channels, channels, kernel, dilation=d, padding=kernel // 2 * d) for d in dilations]
        self.convs1 = nn.ModuleList(spread)
        self.convs2 = nn.ModuleList(nn.Conv1d(channels, channels, kernel, padding=kernel // 2) for _ in dilations)
        self.adain1 = nn.ModuleList(AdaptiveInstanceNorm(style, channels) for _ in dilations)
        self.adain2 = nn.ModuleList(AdaptiveInstanceNorm(style, channels) for _ in dilations)
        self.alpha1 = nn.ParameterList(_alpha(channels) for _ in dilations)
        self.alpha2 = nn.ParameterList(_alpha(channels) for _ in dilations)

    def forward(self, x: Tensor, style: Tensor, ragged: Ragged) -> Tensor:
        """Maps `x [B, C, T]` to the same shape; what is beyond the end of an item means nothing."""
        for i in range(len(self.convs1)):
            y = self.convs1[i](_snake(self.adain1[i](x, style, ragged), self.alpha1[i]))
            x = x + self.convs2[i](_snake(self.adain2[i](y, style, ragged), self.alpha2[i]))
        return x


def _alpha(channels: int) -> nn.Parameter:
    """The frequency of a Snake, and the inverse of its size."""
    return nn.Parameter(Tensor(1, channels, 1))


def _snake(x: Tensor, alpha: Tensor) -> Tensor:
    return snake_beta(x, alpha[0], alpha[0].reciprocal())
