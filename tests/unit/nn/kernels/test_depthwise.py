"""A depthwise convolution over channels-last rows, and the snake after it."""

import pytest
import torch
import torch.nn.functional as F

from rhapsode.nn.kernels.snake import SnakeWeights, snake_beta_reference

depthwise = pytest.importorskip("rhapsode.nn.kernels.gpu.depthwise", reason="needs Triton").depthwise


@pytest.mark.parametrize(("batch", "length", "channels", "dilation"), [(1, 5, 3, 1), (2, 70, 40, 9), (3, 33, 100, 3)])
@pytest.mark.parametrize("snaked", [False, True])
def test_a_depthwise_convolution(device, batch, length, channels, dilation, snaked) -> None:
    x = torch.randn(batch, 6 * dilation + length, channels, device=device)
    weight, bias = torch.randn(7, channels, device=device), torch.randn(channels, device=device)
    snake = SnakeWeights(*(torch.rand(2, channels, device=device) + 0.5)) if snaked else None
    out = x.new_empty(batch, length, channels)
    depthwise(x, weight, bias, out, dilation, snake)
    expected = F.conv1d(x.transpose(1, 2), weight.T[:, None], bias, dilation=dilation, groups=channels)
    if snake is not None:
        expected = snake_beta_reference(expected, snake.frequency[:, None], snake.size[:, None])
    torch.testing.assert_close(out, expected.transpose(1, 2), rtol=1e-4, atol=1e-4)
