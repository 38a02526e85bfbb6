"""8-bit weights: how far from the ones they stand for, and what takes their place."""

import pytest
import torch
from torch import nn

from rhapsode.nn import kernels
from rhapsode.nn.kernels.weight import FLOAT8
from rhapsode.nn.linear import linear
from rhapsode.nn.quantised import LARGEST, Quantised, quantise


@pytest.fixture
def weight():
    torch.manual_seed(0)
    return torch.randn(64, 256) * torch.logspace(-6, 3, 64)[:, None]  # outputs of very different sizes


def test_every_weight_is_within_half_a_step(weight) -> None:
    made = Quantised(weight)
    error = (made.packed.dequantised(torch.float32) - weight).abs()
    step = torch.maximum(weight.abs() * 2**-3, made.scales[:, None] * 2**-9)  # three bits, or what is left near zero
    assert (error <= step / 2 * (1 + 1e-5)).all()
    assert (error.square().sum(1) / weight.square().sum(1)).sqrt().max() < 0.03


def test_the_largest_of_each_output_is_kept_as_it_is(weight) -> None:
    made = Quantised(weight)
    assert torch.equal(made.values.float().abs().amax(1), torch.full((64,), LARGEST))
    torch.testing.assert_close(made.packed.dequantised(torch.float32).abs().amax(1), weight.abs().amax(1))


def test_zeros_stay_zeros() -> None:
    assert torch.equal(Quantised(torch.zeros(3, 16)).packed.dequantised(torch.float32), torch.zeros(3, 16))


def test_a_quantised_module_computes_with_what_its_weights_stand_for(weight) -> None:
    layer = nn.Linear(256, 64).requires_grad_(False)
    layer.weight.copy_(weight)
    x = torch.randn(2, 5, 256)
    quantise(layer)
    expected = x @ layer.weight.packed.dequantised(torch.float32).T + layer.bias
    torch.testing.assert_close(linear(x, layer), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("mode", ["off", "always"])
def test_it_takes_a_byte_each_and_a_scale_per_output(weight, mode) -> None:
    layer = nn.Linear(256, 64, bias=False)
    with kernels.use(mode):
        quantise(layer)
    held = [*layer.parameters(), *layer.buffers()]
    assert sum(t.numel() * t.element_size() for t in held) == 64 * 256 + 4 * 64
    assert layer.weight.values.dtype == FLOAT8
