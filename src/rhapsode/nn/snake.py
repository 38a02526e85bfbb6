"""Snake and SnakeBeta: activations with a periodic term, whose frequency and size each channel learns."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rhapsode.nn.derived import Derived
from rhapsode.nn.kernels.snake import SnakeWeights, snake_beta


class SnakeBeta(Derived):
    """An activation whose parameters are logarithms: alpha that of the frequency, beta that of the inverse size."""

    frequency: Tensor  # [C, 1]
    size: Tensor  # [C, 1]

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(channels))
        self.beta = nn.Parameter(torch.zeros(channels))
        self.register_buffer("frequency", None, persistent=False)
        self.register_buffer("size", None, persistent=False)

    def derive(self) -> None:
        self.frequency = self.alpha.exp()[:, None]
        self.size = (self.beta.exp() + 1e-9).reciprocal()[:, None]

    def forward(self, x: Tensor) -> Tensor:
        return snake_beta(x, self.frequency, self.size)


class Snake(Derived):
    """An activation with one parameter per channel, which is both the frequency and the inverse of the size."""

    frequency: Tensor  # [C, 1]
    size: Tensor  # [C, 1]

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))
        self.register_buffer("frequency", None, persistent=False)
        self.register_buffer("size", None, persistent=False)

    def derive(self) -> None:
        self.frequency = self.alpha[0].detach()
        self.size = (self.frequency + 1e-9).reciprocal()

    @property
    def weights(self) -> SnakeWeights:
        return SnakeWeights(self.frequency, self.size)

    def forward(self, x: Tensor) -> Tensor:
        return snake_beta(x, self.frequency, self.size)
