"""The residual blocks of a HiFT vocoder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from rhapsode.device.state import State
from rhapsode.nn.hift.conv import AheadConv, states_of
from rhapsode.nn.hift.lags import block_lags, block_reach
from rhapsode.nn.snake import Snake
from rhapsode.nn.streaming import ChainState, Streaming, TailState
from rhapsode.nn.symmetric import delayed, existing


class HiftSnake(Snake):
    """A Snake activation whose parameter is a vector in the checkpoint."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.alpha = nn.Parameter(torch.ones(channels))

    def derive(self) -> None:
        self.frequency = self.alpha.detach()[:, None]
        self.size = (self.frequency + 1e-9).reciprocal()


class HiftBlock(Streaming):
    """Pairs of a dilated and a plain convolution, each after a Snake. A subclass adds them to their input."""

    def __init__(self, channels: int, kernel: int, dilations: Sequence[int]) -> None:
        super().__init__()
        self.convs1 = nn.ModuleList(AheadConv(channels, channels, kernel, dilation) for dilation in dilations)
        self.convs2 = nn.ModuleList(AheadConv(channels, channels, kernel) for _ in dilations)
        self.activations1 = nn.ModuleList(HiftSnake(channels) for _ in dilations)
        self.activations2 = nn.ModuleList(HiftSnake(channels) for _ in dilations)


class AheadBlock(HiftBlock):
    """A causal block."""

    def state(self, slots: int) -> ChainState:
        return ChainState(states_of((*self.convs1, *self.convs2), slots))

    def forward(self, x: Tensor, slots: Tensor, state: ChainState, ahead: int) -> Tensor:
        first, second = state.states[: len(self.convs1)], state.states[len(self.convs1) :]
        for i, tails in enumerate(zip(first, second, strict=True)):
            y = self.convs1[i](self.activations1[i](x), slots, tails[0], ahead)
            x = x + self.convs2[i](self.activations2[i](y), slots, tails[1], ahead)
        return x


class SymmetricBlockState(State):
    """The tails of both kinds of convolutions, and of the rows that wait for them."""

    def __init__(self, slots: int, block: SymmetricBlock) -> None:
        like = block.convs2[0].weight
        assert isinstance(like, nn.Parameter)
        waits = [late - early for early, late in pairwise([*block.lags[::2], block.reach])]
        self.first, self.second = states_of(block.convs1, slots), states_of(block.convs2, slots)
        self.late = [TailState(slots, like, like.shape[0], rows) for rows in waits]


class SymmetricBlock(HiftBlock):
    """A block that looks as far ahead as behind, in a stream: what it returns is `reach` rows late."""

    def __init__(self, channels: int, kernel: int, dilations: Sequence[int]) -> None:
        super().__init__(channels, kernel, dilations)
        self.lags = block_lags(kernel, dilations)
        """The rows by which the inputs of its convolutions are late."""
        self.reach = block_reach(kernel, dilations)

    def state(self, slots: int) -> SymmetricBlockState:
        return SymmetricBlockState(slots, self)

    def forward(self, x: Tensor, slots: Tensor, state: SymmetricBlockState, bounds: Iterator[Tensor]) -> Tensor:
        """Maps `[B, C, T]` to the same shape; `bounds` has the rows that exist of each convolution's input."""
        for i, late in enumerate(state.late):
            y = self.convs1[i](existing(self.activations1[i](x), next(bounds)), slots, state.first[i], 0)
            y = self.convs2[i](existing(self.activations2[i](y), next(bounds)), slots, state.second[i], 0)
            x = delayed(x, slots, late) + y
        return x
