"""Causal convolutions of the vocoder. The last columns of an input are look-ahead: the next call gets them again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from rhapsode.device.state import State
from rhapsode.nn.snake import Snake
from rhapsode.nn.streaming import ChainState, Streaming, TailState, convolve, extend


def states_of(modules: Iterable[nn.Module], slots: int) -> list[State]:
    """Returns one state for each of these modules, in order."""
    return [module.state(slots) for module in modules if isinstance(module, Streaming)]


class AheadConv(Streaming):
    """A causal convolution that continues where each slot's last input ended."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, kernel))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.dilation = dilation

    def state(self, slots: int) -> TailState:
        _, inputs, kernel = self.weight.shape
        return TailState(slots, self.weight, inputs, (kernel - 1) * self.dilation)

    def forward(self, x: Tensor, slots: Tensor, state: TailState, ahead: int) -> Tensor:
        """Maps `[B, inputs, T]` to `[B, outputs, T]`; the state moves on by all but the last `ahead` columns."""
        return convolve(extend(x, slots, state, ahead), self.weight, self.bias, self.dilation)


class HiftSnake(Snake):
    """A Snake activation whose parameter is a vector in the checkpoint."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.alpha = nn.Parameter(torch.ones(channels))

    def derive(self) -> None:
        self.frequency = self.alpha.detach()[:, None]
        self.size = (self.frequency + 1e-9).reciprocal()


class HiftBlock(Streaming):
    """Pairs of a dilated and a plain convolution, each after a Snake, added to the input."""

    def __init__(self, channels: int, kernel: int, dilations: Sequence[int]) -> None:
        super().__init__()
        self.convs1 = nn.ModuleList(AheadConv(channels, channels, kernel, dilation) for dilation in dilations)
        self.convs2 = nn.ModuleList(AheadConv(channels, channels, kernel) for _ in dilations)
        self.activations1 = nn.ModuleList(HiftSnake(channels) for _ in dilations)
        self.activations2 = nn.ModuleList(HiftSnake(channels) for _ in dilations)

    def state(self, slots: int) -> ChainState:
        return ChainState(states_of((*self.convs1, *self.convs2), slots))

    def forward(self, x: Tensor, slots: Tensor, state: ChainState, ahead: int) -> Tensor:
        first, second = state.states[: len(self.convs1)], state.states[len(self.convs1) :]
        for i, tails in enumerate(zip(first, second, strict=True)):
            y = self.convs1[i](self.activations1[i](x), slots, tails[0], ahead)
            x = x + self.convs2[i](self.activations2[i](y), slots, tails[1], ahead)
        return x
