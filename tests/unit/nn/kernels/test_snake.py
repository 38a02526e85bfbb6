"""The kernels' SnakeBeta and Snake against the modules', in float64."""

import pytest
import torch

from rhapsode.nn.derived import derive
from rhapsode.nn.snake import Snake, SnakeBeta

gpu = pytest.importorskip("rhapsode.nn.kernels.gpu.conv", reason="needs Triton")
by_itself = pytest.importorskip("rhapsode.nn.kernels.gpu.snake", reason="needs Triton")
pack = pytest.importorskip("rhapsode.nn.fused.pack")


@pytest.mark.parametrize("reach", [1.0, 30.0, 3000.0])
def test_it_is_exact_to_float32_however_far_the_sine_has_to_reach(device, reach):
    module = SnakeBeta(16).to(device).requires_grad_(False)
    module.alpha.uniform_(-1, 1)
    module.beta.uniform_(-1, 1)
    x = (torch.rand(2, 40, 16, device=device) - 0.5) * 2 * reach
    out = torch.empty_like(x)
    identity = gpu.ConvWeights(torch.eye(16, device=device), None)
    gpu.conv(x, identity, act=out, snake=pack.snake_weights(module))
    module.double()
    derive(module)
    expected = module(x.double().transpose(1, 2)).transpose(1, 2)
    # An argument of float32 is itself known to one part in 2 ** 24.
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=4e-6 + reach * 1e-6)


def test_the_parameter_of_a_plain_snake_may_be_negative(device):
    module = Snake(16).to(device).requires_grad_(False)
    module.alpha.view(-1).copy_(torch.linspace(-2, 2, 16))
    x = torch.randn(2, 40, 16, device=device)
    weights = pack.snake_weights(module)
    act = torch.empty_like(x)
    gpu.conv(x, gpu.ConvWeights(torch.eye(16, device=device), None), act=act, snake=weights)
    module.double()
    derive(module)
    expected = module(x.double().transpose(1, 2))
    torch.testing.assert_close(act.double().transpose(1, 2), expected, rtol=0, atol=2e-5)
    alone = by_itself.snake_beta(x.transpose(1, 2).contiguous(), weights.frequency, weights.size)
    torch.testing.assert_close(alone.double(), expected, rtol=0, atol=2e-5)
