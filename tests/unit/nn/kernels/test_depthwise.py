"""A depthwise convolution between snakes, in a stream: the kernel continues slots as the modules do."""

import pytest
import torch

from rhapsode.nn import kernels
from rhapsode.nn.derived import derive
from rhapsode.nn.kernels.depthwise import snaked_depthwise
from rhapsode.nn.kernels.snake import SnakeWeights
from rhapsode.nn.snake import Snake
from rhapsode.nn.streaming import CausalConv1d, TailState


@pytest.mark.parametrize("dilation", [1, 9])
def test_slots_continue_from_their_state(device, dilation: int) -> None:
    channels = 3
    before, conv, after = Snake(channels), CausalConv1d(channels, channels, 7, 1, dilation, channels), Snake(channels)
    for part in (before, conv, after):
        part.to(device).requires_grad_(False)
        derive(part)
    for snake in (before, after):
        snake.alpha.uniform_(0.5, 1.5)
        derive(snake)
    slots = torch.tensor([2, 0], device=device)
    weight, bias = conv.conv.weight, conv.conv.bias
    ours, theirs = (TailState(3, conv.conv.weight, channels, 6 * dilation) for _ in range(2))
    wide = torch.zeros(4, 6 * dilation * channels + 3, device=device)  # tails may be a part of something wider
    ours.tail = wide[:, 3:].unflatten(1, (6 * dilation, channels))
    for length in (20, 7, 60):  # longer and shorter than what is kept
        x = torch.randn(2, channels, length, device=device)
        expected = after(conv(before(x), slots, theirs))
        with kernels.use("always"):
            found = snaked_depthwise(x, ours.tail, slots, before.weights, weight, bias, dilation, after.weights)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(ours.tail, theirs.tail, rtol=1e-4, atol=1e-5)


def test_other_convolutions_are_not_supported(device) -> None:
    conv = CausalConv1d(4, 4, 7).to(device).requires_grad_(False)
    wave, slots = SnakeWeights(*torch.ones(2, 4, 1, device=device)), torch.zeros(1, dtype=torch.int64)
    x, tails = torch.zeros(1, 4, 8, device=device), torch.zeros(2, 6, 4, device=device)
    with kernels.use("always"):
        assert snaked_depthwise(x, tails, slots, wave, conv.conv.weight, conv.conv.bias, 1, wave) is None
