"""Snake and SnakeBeta."""

import pytest
import torch

from rhapsode.nn.derived import derive
from rhapsode.nn.hift.block import HiftSnake
from rhapsode.nn.snake import Snake, SnakeBeta


def test_both_parameters_are_logarithms():
    snake = SnakeBeta(3).double().requires_grad_(False)
    snake.alpha.copy_(torch.tensor([-0.4, 0.0, 0.7]))
    snake.beta.copy_(torch.tensor([0.3, -0.2, 0.0]))
    derive(snake)
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    alpha, beta = snake.alpha.exp()[:, None], snake.beta.exp()[:, None]
    torch.testing.assert_close(snake(x), x + torch.sin(x * alpha) ** 2 / (beta + 1e-9), rtol=0, atol=1e-14)


def test_what_is_derived_is_not_saved():
    snake = SnakeBeta(3)
    derive(snake)
    assert set(snake.state_dict()) == {"alpha", "beta"}


@pytest.mark.parametrize("kind", [Snake, HiftSnake])
def test_the_parameter_of_a_plain_snake_may_be_negative(kind: type[Snake]) -> None:
    """Published codecs have such channels: there the periodic term is subtracted. None is nearer to 0 than 0.0033."""
    values = torch.tensor([-1.3, -0.0033, 0.7, 0.0033], dtype=torch.float64)
    snake = kind(len(values)).double().requires_grad_(False)
    snake.alpha.view(-1).copy_(values)
    derive(snake)
    x, alpha = torch.randn(2, 4, 5, dtype=torch.float64), values[:, None]
    found = snake(x)
    torch.testing.assert_close(found, x + (1 / (alpha + 1e-9)) * torch.sin(alpha * x) ** 2, rtol=0, atol=1e-12)
    assert (found[:, :2] <= x[:, :2]).all()
    assert (found[:, 2:] >= x[:, 2:]).all()
