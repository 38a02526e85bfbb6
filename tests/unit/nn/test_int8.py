"""8-bit integer weights on a CPU: how far from the ones they stand for, and that rows stay independent."""

import gc
from dataclasses import replace

import pytest
import torch
from torch import nn

from rhapsode.device.trace import Trace
from rhapsode.errors import ConfigError
from rhapsode.models.base import StageContext
from rhapsode.models.dummy.spec import SPEC
from rhapsode.models.parts import _quantised_as
from rhapsode.nn.kernels import int8
from rhapsode.nn.linear import linear
from rhapsode.nn.quantised import Int8Quantised, quantise


@pytest.fixture
def layer() -> nn.Linear:
    torch.manual_seed(0)
    made = nn.Linear(256, 64).requires_grad_(False)
    made.weight.mul_(torch.logspace(-3, 2, 64)[:, None])  # outputs of very different sizes
    return made


def test_every_weight_is_within_half_a_step(layer: nn.Linear) -> None:
    weight = layer.weight.clone()
    error = (Int8Quantised(weight).dense - weight).abs()
    step = weight.abs().amax(1, keepdim=True) / int8.LARGEST
    assert (error <= step / 2 * (1 + 1e-4)).all()


def test_a_product_is_close_to_that_of_the_original_weights(layer: nn.Linear) -> None:
    x = torch.randn(4, 1, 256)
    expected = layer(x)
    quantise(layer, Int8Quantised)
    error = (linear(x, layer) - expected).square().mean((0, 1)).sqrt() / expected.square().mean((0, 1)).sqrt()
    assert 0 < float(error.max()) < 0.03


@pytest.mark.parametrize("rows", [2, int8.FEW_ROWS])
def test_rows_do_not_depend_on_each_other(layer: nn.Linear, rows: int) -> None:
    quantise(layer, Int8Quantised)
    x = torch.randn(rows, 1, 256) * torch.logspace(0, 3, rows)[:, None, None]
    together = linear(x, layer)
    assert all(torch.equal(together[i], linear(x[i : i + 1], layer)[0]) for i in range(rows))


def test_many_rows_are_multiplied_by_the_same_numbers_as_floats(layer: nn.Linear) -> None:
    quantise(layer, Int8Quantised)
    x = torch.randn(1, int8.FEW_ROWS + 1, 256)
    torch.testing.assert_close(linear(x, layer), x @ layer.weight.dense.T + layer.bias)


def test_a_trace_computes_the_same(layer: nn.Linear) -> None:
    quantise(layer, Int8Quantised)
    x = torch.randn(1, 256)
    trace = Trace(lambda given: linear(given, layer), [x], [])
    x.copy_(torch.randn(1, 256))
    assert torch.equal(trace.replay(), linear(x, layer))


def test_packed_weights_are_freed_with_their_module(layer: nn.Linear) -> None:
    gc.collect()
    before = len(int8._packed)
    quantise(layer, Int8Quantised)
    assert len(int8._packed) == before + 1
    del layer.weight
    gc.collect()
    assert len(int8._packed) == before


def test_zeros_stay_zeros() -> None:
    layer = nn.Linear(16, 3, bias=False).requires_grad_(False)
    layer.weight.zero_()
    quantise(layer, Int8Quantised)
    assert torch.equal(linear(torch.randn(1, 16), layer), torch.zeros(1, 3))


def test_it_is_for_cpus_alone() -> None:
    context = StageContext(SPEC, None, {}, "cpu", "float32", weights="int8")
    assert _quantised_as(context) is Int8Quantised
    with pytest.raises(ConfigError, match="int8 is for CPUs; on a GPU use fp8"):
        _quantised_as(replace(context, device="cuda:0"))
