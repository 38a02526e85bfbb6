"""What is loaded ahead gives what is loaded in time."""

import pytest
import torch

from rhapsode.nn import kernels
from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.kernels.linear import fused_linear, fused_linear_reference
from rhapsode.nn.kernels.sampling import NoiseCounters, Settings
from rhapsode.nn.kernels.weight import Float8Weight, Norm
from rhapsode.nn.local import LocalStack
from rhapsode.nn.quantised import Quantised
from rhapsode.nn.rope import RopeConfig
from rhapsode.nn.sampling import draw, draw_embedded

CLOSE = {torch.float16: {"rtol": 4e-3, "atol": 4e-3}, torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2}}
USES = {"normed": {"norm"}, "normed and gated": {"norm", "gated"}, "added": {"residual"}, "plain": set()}


@pytest.fixture(autouse=True)
def by_kernel():
    with kernels.use("always"):
        yield


@pytest.fixture
def narrow(device) -> torch.dtype:
    return torch.bfloat16 if device.type == "cuda" else torch.float16  # the interpreter's products know no bfloat16


@pytest.fixture
def ahead(monkeypatch):
    """Counts the linears that load ahead."""
    from rhapsode.nn.kernels.gpu import ahead, linear

    calls = []

    def counted(*args, **kwargs):
        calls.append(args)
        return ahead_linear(*args, **kwargs)

    ahead_linear = ahead.ahead_linear
    monkeypatch.setattr(ahead, "ahead_linear", counted)
    monkeypatch.setattr(linear, "ahead_linear", counted)
    return calls


def operands(device, dtype, use, rows, width=40, k=384):
    n = 2 * width if "gated" in use else width
    x, gain = torch.randn(rows, k).to(device, dtype), torch.randn(k).to(device, dtype)
    weight = (torch.randn(n, k) * k**-0.5).to(device, dtype)
    residual = torch.randn(rows, width).to(device, dtype) if "residual" in use else None
    return (x, weight), {
        "norm": Norm(gain, 1e-6) if "norm" in use else None,
        "gated": "gated" in use,
        "residual": residual,
    }


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("rows", [2, 11])
def test_linears(device, narrow, ahead, use, rows) -> None:
    given, options = operands(device, narrow, use, rows)
    expected = fused_linear_reference(*given, **options)
    found = fused_linear(*given, **options)
    assert len(ahead) == 1
    torch.testing.assert_close(found, expected, **CLOSE[narrow])


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_row_is_the_same_in_any_company(device, narrow, ahead, use) -> None:
    (x, weight), options = operands(device, narrow, use, 8, k=128)
    residual = options.pop("residual")
    some = slice(3, 5)
    whole = fused_linear(x, weight, residual=residual, **options)
    part = fused_linear(x[some], weight, residual=None if residual is None else residual[some], **options)
    assert len(ahead) == 2
    assert torch.equal(part, whole[some])


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("rows", [2, 11])
def test_weights_of_8_bits(device, narrow, ahead, use, rows) -> None:
    (x, weight), options = operands(device, narrow, use, rows, k=384)
    packed = Quantised(weight).packed
    expected = fused_linear_reference(x, packed, **options)
    found = fused_linear(x, packed, **options)
    assert isinstance(ahead[0][1], Float8Weight)
    torch.testing.assert_close(found, expected, **CLOSE[narrow])


def test_more_programs_than_run_at_once_only_where_two_fit(device, narrow, ahead, monkeypatch) -> None:
    from rhapsode.nn.kernels.gpu import linear_plan

    monkeypatch.setattr(linear_plan, "MULTIPROCESSORS", 1)
    (x, weight), options = operands(device, narrow, USES["normed and gated"], 6, width=80, k=128)
    expected = fused_linear_reference(x, weight, **options)
    for shared, calls in ((8 << 10, 0), (32 << 10, 1)):
        monkeypatch.setattr(linear_plan, "SHARED_IN_ALL", shared)
        torch.testing.assert_close(fused_linear(x, weight, **options), expected, **CLOSE[narrow])
        assert len(ahead) == calls


def test_what_it_cannot_do_is_done_by_the_other_kernels(device, narrow, ahead) -> None:
    for k, bias in ((96, None), (128, torch.randn(40).to(device, narrow))):
        (x, weight), _ = operands(device, narrow, set(), 5, k=k)
        expected = fused_linear_reference(x, weight, bias)
        torch.testing.assert_close(fused_linear(x, weight, bias), expected, **CLOSE[narrow])
    assert not ahead


@pytest.mark.slow
def test_a_stack_of_a_few_dozen_rows(device, narrow, ahead) -> None:
    config = DecoderConfig(128, 512, 1, 4, 2, 128, RopeConfig(128, 1000.0))
    stack = LocalStack(config, 9).to(device, narrow)
    for weight in stack.parameters():
        weight.copy_(torch.randn_like(weight) * (0.05 if weight.ndim > 1 else 1.0))
    x = torch.randn(2, 9, 128).to(device, narrow)
    with kernels.use("off"):
        expected = stack.hidden_states(x.clone())
    found = stack.hidden_states(x.clone())
    assert len(ahead) == 2
    torch.testing.assert_close(found, expected, rtol=8e-2, atol=8e-2)


def test_the_embedding_of_what_is_drawn(device, ahead) -> None:
    logits, table = torch.randn(3, 50).to(device), torch.randn(50, 24).to(device)
    ones = torch.ones(3, device=device)
    settings = Settings(ones, torch.full((3,), 5, device=device), ones)
    noise = NoiseCounters(torch.arange(3, device=device), torch.arange(3, device=device) + 7, 2)
    ids, embedded = draw_embedded(logits, settings, noise, table)
    assert torch.equal(ids, draw(logits, settings, noise))
    assert torch.equal(embedded, table[ids])
