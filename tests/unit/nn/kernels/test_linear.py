"""Fused linears are their references, but for the order of sums."""

import pytest
import torch

from rhapsode.nn import kernels
from rhapsode.nn.kernels.activation import silu_mul, silu_mul_reference
from rhapsode.nn.kernels.linear import fused_linear, fused_linear_reference
from rhapsode.nn.kernels.norm import rms_norm, rms_norm_reference
from rhapsode.nn.kernels.weight import Norm
from rhapsode.nn.quantised import Quantised

WIDE = {"rtol": 1e-5, "atol": 1e-5}
CLOSE = {
    torch.float32: WIDE,
    torch.float16: {"rtol": 4e-3, "atol": 4e-3},
    torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2},
}
USES = {
    "plain": {},
    "biased": {"bias": True},
    "normed": {"norm": True},
    "normed and gated": {"norm": True, "gated": True},
    "all of it": {"norm": True, "gated": True, "bias": True, "residual": True},
    "added": {"residual": True},
    "centred": {"norm": True, "centred": True, "bias": True},
    "centred, then GELU": {"norm": True, "centred": True, "bias": True, "activation": "gelu"},
    "GELU by tanh, added": {"activation": "gelu_tanh", "residual": True},
}
ODD = (50, 72)  # outputs, inputs: no block fits
EVEN = (32, 4096)


@pytest.fixture(autouse=True)
def by_kernel():
    with kernels.use("always"):
        yield


def operands(
    device, dtype, shape, rows, norm=False, centred=False, gated=False, activation=None, bias=False, residual=False
):
    n, k = shape

    def random(*size, scale=1.0):
        return (torch.randn(*size) * scale).to(device, dtype)

    out = n // 2 if gated else n
    options = {
        "norm": Norm(random(k), 1e-6, random(k) if centred else None) if norm else None,
        "gated": gated,
        "activation": activation,
        "residual": random(*rows, out) if residual else None,
    }
    return (random(*rows, k), random(n, k, scale=k**-0.5), random(n) if bias else None), options


def both(device, dtype, shape, rows, quantised=False, **use):
    (x, weight, bias), options = operands(device, dtype, shape, rows, **use)
    weight = Quantised(weight).packed if quantised else weight
    expected = fused_linear_reference(x, weight, bias, **options)
    return fused_linear(x, weight, bias, **options), expected


@pytest.mark.parametrize("quantised", [False, True], ids=["as they are", "8-bit"])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("rows", [(1, 1), (5,)], ids=str)
def test_few_rows(device, dtype, use, rows, quantised) -> None:
    found, expected = both(device, dtype, ODD, rows, quantised, **use)
    assert found.dtype == dtype
    torch.testing.assert_close(found, expected, **CLOSE[dtype])


@pytest.mark.parametrize("quantised", [False, True], ids=["as they are", "8-bit"])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_whole_blocks_over_several_turns_of_the_loop(device, dtype, rows, quantised) -> None:
    found, expected = both(device, dtype, EVEN, (rows,), quantised, norm=True, residual=True)
    torch.testing.assert_close(found, expected, **CLOSE[dtype])


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_one_row_of_bfloat16(device, use) -> None:
    found, expected = both(device, torch.bfloat16, ODD, (1,), **use)
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=8e-2)  # the interpreter cuts off where it should round


@pytest.mark.parametrize("quantised", [False, True], ids=["as they are", "8-bit"])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_many_rows(device, use, quantised) -> None:
    found, expected = both(device, torch.float32, ODD, (3, 7), quantised, **use)
    torch.testing.assert_close(found, expected, **WIDE)


@pytest.mark.parametrize("quantised", [False, True], ids=["as they are", "8-bit"])
def test_a_row_is_the_same_in_any_company(device, dtype, quantised) -> None:
    most = 4 if quantised else 9  # more rows than four multiply what the 8 bits stand for
    (x, weight, _), options = operands(device, dtype, ODD, (most,), norm=True, gated=True)
    weight = Quantised(weight).packed if quantised else weight
    whole = fused_linear(x, weight, **options)
    for rows in (2, most // 2 + 1):
        assert torch.equal(fused_linear(x[:rows], weight, **options), whole[:rows])


@pytest.mark.parametrize("dim", [6, 128, 300])
def test_norms(device, dtype, dim) -> None:
    x, weight = torch.randn(5, dim).to(device, dtype) * 9, torch.randn(dim).to(device, dtype)
    torch.testing.assert_close(rms_norm(x, weight, 1e-6), rms_norm_reference(x, weight, 1e-6), **CLOSE[dtype])


def test_gates(device, dtype) -> None:
    x = torch.randn(3, 2, 2 * 1100).to(device, dtype) * 4
    torch.testing.assert_close(silu_mul(x), silu_mul_reference(x), **CLOSE[dtype])
