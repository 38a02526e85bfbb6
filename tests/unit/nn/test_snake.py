"""SnakeBeta."""

import torch

from rhapsode.nn.derived import derive
from rhapsode.nn.snake import SnakeBeta


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
