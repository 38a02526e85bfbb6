"""The convolutional half of a codec's decoder: from frames to samples by upsampling between residual units.

Without slots a module runs one pass over its whole input; with slots it continues their streams.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import ceil
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.device.state import State
from rhapsode.nn.streaming import CausalConv1d, CausalConvTranspose1d, Streaming, StreamingBlock, StreamingChain

KERNEL = 7
DILATIONS = (1, 3, 9)

Activation = Callable[[int], nn.Module]
"""Makes the activation for a number of channels: `Snake` or `SnakeBeta`."""


class ConvNeXt(Streaming):
    """A depthwise convolution and a feed-forward network per position, added to the input."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dwconv = CausalConv1d(dim, dim, KERNEL, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1 = nn.Linear(dim, 4 * dim)
        self.pwconv2 = nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(torch.ones(dim))

    def state(self, slots: int) -> State:
        return self.dwconv.state(slots)

    def forward(self, x: Tensor, slots: Tensor | None = None, state: State | None = None) -> Tensor:
        mixed = self.norm(self.dwconv(x, slots, state).transpose(1, 2))
        mixed = self.pwconv2(F.gelu(self.pwconv1(mixed)))
        return torch.addcmul(x, mixed.transpose(1, 2), self.gamma[:, None])


class ResidualUnit(Streaming):
    """A dilated convolution and a pointwise one, each after an activation, added to the input."""

    def __init__(self, dim: int, dilation: int, activation: Activation) -> None:
        super().__init__()
        self.act1 = activation(dim)
        self.conv1 = CausalConv1d(dim, dim, KERNEL, dilation=dilation)
        self.act2 = activation(dim)
        self.conv2 = CausalConv1d(dim, dim, 1)

    def state(self, slots: int) -> State:
        return self.conv1.state(slots)

    def forward(self, x: Tensor, slots: Tensor | None = None, state: State | None = None) -> Tensor:
        return x + self.conv2(self.act2(self.conv1(self.act1(x), slots, state)))


class UpsampleBlock(StreamingBlock):
    """Upsamples by `rate`, then applies residual units."""

    def __init__(self, inputs: int, outputs: int, rate: int, activation: Activation) -> None:
        super().__init__()
        units = [ResidualUnit(outputs, dilation, activation) for dilation in DILATIONS]
        self.block = StreamingChain(activation(inputs), CausalConvTranspose1d(inputs, outputs, 2 * rate, rate), *units)


def upsampler(dim: int, ratios: Sequence[int]) -> StreamingChain:
    """Makes the upsampler of `[B, dim, T]` before the vocoder: per ratio a transposed convolution and a `ConvNeXt`."""
    return StreamingChain(
        *(StreamingChain(CausalConvTranspose1d(dim, dim, ratio, ratio), ConvNeXt(dim)) for ratio in ratios)
    )


def vocoder(inputs: int, dim: int, rates: Sequence[int], activation: Activation) -> StreamingChain:
    """Makes the vocoder: `[B, inputs, T]` to one channel. It starts with `dim` channels, and every rate halves them."""
    dims = [dim >> i for i in range(len(rates) + 1)]
    blocks = [UpsampleBlock(*sizes, rate, activation) for sizes, rate in zip(pairwise(dims), rates, strict=True)]
    return StreamingChain(
        CausalConv1d(inputs, dims[0], KERNEL), *blocks, activation(dims[-1]), CausalConv1d(dims[-1], 1, KERNEL)
    )


def settle_frames(ratios: Sequence[int], rates: Sequence[int]) -> int:
    """Returns the receptive field of upsampler and vocoder: how many frames determine their state."""
    rate, reach = 1, 0.0
    for ratio in ratios:
        rate *= ratio
        reach += (KERNEL - 1) / rate
    reach += (KERNEL - 1) / rate
    for ratio in rates:
        reach += 1 / rate
        rate *= ratio
        reach += (KERNEL - 1) * sum(DILATIONS) / rate
    return ceil(reach + (KERNEL - 1) / rate)


class VocoderParts(NamedTuple):
    """The modules of a vocoder; a block is an activation, the upsampling and residual units."""

    begin: CausalConv1d
    blocks: list[tuple[nn.Module, CausalConvTranspose1d, list[ResidualUnit]]]
    last_act: nn.Module
    last: CausalConv1d


def vocoder_parts(chain: StreamingChain) -> VocoderParts:
    """Returns the modules of a chain that `vocoder` made."""
    begin, *blocks, last_act, last = chain
    assert isinstance(begin, CausalConv1d)
    assert isinstance(last, CausalConv1d)
    return VocoderParts(begin, [_block_parts(block) for block in blocks], last_act, last)


def _block_parts(block: nn.Module) -> tuple[nn.Module, CausalConvTranspose1d, list[ResidualUnit]]:
    assert isinstance(block, UpsampleBlock)
    before, up, *units = block.block
    assert isinstance(up, CausalConvTranspose1d)
    return before, up, [unit for unit in units if isinstance(unit, ResidualUnit)]
