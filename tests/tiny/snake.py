"""Snake activations as published checkpoints have them: some of their parameters are negative."""

from torch import nn

from rhapsode.nn.snake import Snake
from tiny.weights import NEGATIVE


def negate_some(net: nn.Module) -> None:
    """Negates some parameters of all Snake activations of a network whose values are not derived yet."""
    for module in net.modules():
        if isinstance(module, Snake):
            module.alpha.data.view(-1)[NEGATIVE].neg_()
