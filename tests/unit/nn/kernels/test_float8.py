"""Many rows by 8-bit weights: the kernel computes what the weights stand for."""

import pytest
import torch

from rhapsode.nn import kernels
from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.depth import DepthStack
from rhapsode.nn.kernels.linear import fused_linear, fused_linear_reference
from rhapsode.nn.kernels.norm import rms_norm_reference
from rhapsode.nn.kernels.weight import Norm
from rhapsode.nn.local import LocalStack
from rhapsode.nn.quantised import Quantised, quantise
from rhapsode.nn.rope import RopeConfig

USES = {
    "plain": {},
    "all of it": {"norm": True, "gated": True, "bias": True, "residual": True},
    "added": {"residual": True},
    "GELU by tanh": {"bias": True, "activation": "gelu_tanh"},
}


@pytest.fixture(autouse=True)
def by_kernel(device):
    with kernels.use("auto" if device.type == "cuda" else "always"):  # on a GPU, not for tensors of the CPU
        yield


@pytest.fixture
def narrow(device):
    return torch.bfloat16 if device.type == "cuda" else torch.float16  # the interpreter's products know no bfloat16


@pytest.mark.parametrize("shape", [(50, 72), (64, 1024)], ids=["no block fits", "in shares"])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("rows", [17, 70])
def test_linears(device, narrow, shape, use, rows) -> None:
    (n, k), gated = shape, "gated" in use

    def random(*size):
        return torch.randn(*size).to(device, narrow)

    x, weight, width = random(rows, k), Quantised(random(n, k) * k**-0.5).packed, n // 2 if gated else n
    options = {
        "bias": random(n) if "bias" in use else None,
        "norm": Norm(random(k), 1e-6) if "norm" in use else None,
        "residual": random(rows, width) if "residual" in use else None,
        "gated": gated,
        "activation": use.get("activation"),
    }
    expected = fused_linear_reference(x, weight, **options)
    found = fused_linear(x, weight, **options)
    assert found.dtype == narrow
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)


def test_inputs_are_two_numbers_each(device) -> None:
    from rhapsode.nn.kernels.gpu.float8_input import float8_input

    x = (torch.randn(20, 300) * torch.logspace(-3, 5, 20)[:, None]).to(device, torch.bfloat16)
    x[7] = 0
    halves, scales = float8_input(x)
    size = x.float().abs()
    error, largest = (halves.float().sum(1) * scales[:, None] - x.float()).abs(), size.amax(1, keepdim=True)
    assert (error[size > largest * 2**-10] == 0).all()
    assert (error <= largest * 2**-17.5).all()


def test_norm_and_sums_come_before(device, narrow) -> None:
    from rhapsode.nn.kernels.gpu.float8_input import float8_input

    x, parts = torch.randn(5, 64).to(device, narrow), torch.randn(3, 5, 64).to(device)
    norm = Norm(torch.randn(64).to(device, narrow), 1e-6)
    expected = (x.float() + parts.sum(0)).to(narrow)
    halves, scales = float8_input(x, norm, parts)
    torch.testing.assert_close(x, expected)
    found = halves.float().sum(1) * scales[:, None]
    torch.testing.assert_close(found.to(narrow), rms_norm_reference(x, *norm[:2]), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(("rows", "k"), [(5, 72), (9, 5000)], ids=["one block of columns", "two"])
def test_weights_in_a_wider_dtype(device, rows, k) -> None:
    from rhapsode.nn.kernels.gpu.dequantise import dequantised

    weight = Quantised(torch.randn(rows, k).to(device))
    found = dequantised(weight.values, weight.scales, torch.float32)
    assert torch.equal(found, weight.values.float() * weight.scales[:, None])


def test_a_sum_in_shares(device, narrow) -> None:
    from rhapsode.nn.kernels.gpu.float8 import float8_add
    from rhapsode.nn.kernels.gpu.float8_input import float8_input

    x, weight = torch.randn(20, 1024).to(device, narrow), Quantised(torch.randn(40, 1024).to(device)).packed
    parts = float8_add(torch.zeros(20, 40, device=device, dtype=narrow), float8_input(x), weight)
    assert parts.shape == (8, 20, 40)
    expected = x.float() @ weight.dequantised(torch.float32).T
    assert (parts.sum(0) - expected).norm() < 2e-3 * expected.norm()
    residual = torch.ones(20, 40, device=device, dtype=narrow)
    assert fused_linear(x, weight, residual=residual) is residual
    torch.testing.assert_close(residual, (expected + 1).to(narrow), rtol=1e-2, atol=0.1)


def test_a_sum_that_is_not_cut_is_added_in_place(device, narrow) -> None:
    from rhapsode.nn.kernels.gpu.float8 import float8_add
    from rhapsode.nn.kernels.gpu.float8_input import float8_input

    x, weight = torch.randn(20, 72).to(device, narrow), Quantised(torch.randn(40, 72).to(device)).packed
    residual = torch.ones(20, 40, device=device, dtype=narrow)
    assert float8_add(residual, float8_input(x), weight) is None
    expected = x.float() @ weight.dequantised(torch.float32).T + 1
    torch.testing.assert_close(residual, expected.to(narrow), rtol=1e-2, atol=0.1)


@pytest.mark.parametrize("rows", [20, 132], ids=["sums in float32", "sums in the tensor cores"])
def test_a_stack_of_8_bit_layers(device, narrow, rows) -> None:
    config = DecoderConfig(64, 96, 2, 4, 2, 16, RopeConfig(16, 1000.0), attention_bias=rows == 20)
    stack = LocalStack(config, 4).to(device, narrow)
    for weight in stack.parameters():
        weight.copy_(torch.randn_like(weight) * (0.1 if weight.ndim > 1 else 1.0))
    quantise(stack)
    x = torch.randn(rows // 4, 4, 64).to(device, narrow)
    with kernels.use("off"):
        assert not stack.runs_float8(x)
        expected = stack.hidden_states(x.clone())
    assert stack.runs_float8(x)
    assert not stack.runs_float8(x[:4])
    torch.testing.assert_close(stack.hidden_states(x.clone()), expected, rtol=5e-2, atol=5e-2)


def test_a_depth_stack_widens_its_layers_for_a_frame_of_many_rows(device, narrow, monkeypatch) -> None:
    monkeypatch.setattr("rhapsode.nn.depth.WIDENED_ROWS", 3)
    stack = DepthStack(DecoderConfig(64, 96, 2, 4, 2, 16, RopeConfig(16, 1000.0)), 3).to(device, narrow)
    for weight in stack.parameters():
        weight.copy_(torch.randn_like(weight) * (0.1 if weight.ndim > 1 else 1.0))
    quantise(stack)
    tokens = torch.randn(2, 4, 1, 64).to(device, narrow)
    results = []
    for mode in ("off", "always"):
        with kernels.use(mode):
            frame = stack.begin(4, narrow, device)
            assert (frame.layers is not None) == (mode == "always")
            results.append([stack.advance(x.clone(), frame) for x in tokens])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=5e-2, atol=0.1)
    assert all(layer.widened is None for layer in stack.modules() if isinstance(layer, Quantised))
