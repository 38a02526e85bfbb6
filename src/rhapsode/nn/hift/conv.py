"""Causal convolutions of a HiFT vocoder. The last columns of an input are look-ahead: the next call gets them again."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from rhapsode.device.state import State
from rhapsode.nn.streaming import Streaming, TailState, convolve, extend


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
