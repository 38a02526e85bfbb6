"""The C kernels of a CPU compute what PyTorch's operators compute, row by row."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.device.kv import PagedKV
from rhapsode.device.slots import Rows, SlotRow, SlotTable
from rhapsode.nn.attention import PagedAttention
from rhapsode.nn.decoder import DecoderConfig, DecoderStack
from rhapsode.nn.derived import derive
from rhapsode.nn.kernels.cpu import layers
from rhapsode.nn.kernels.cpu import library as built
from rhapsode.nn.kernels.cpu.predictor import draw_code
from rhapsode.nn.kernels.cpu.vocoder import ConvolutionChain, ConvolutionStep
from rhapsode.nn.kernels.cpu.weights import (
    PANEL,
    SPAN,
    WeightFormat,
    byte_panels,
    integer,
    padded_bias,
    panels,
    pointer,
)
from rhapsode.nn.kernels.sampling import NoiseCounters, Settings
from rhapsode.nn.kernels.snake import SnakeWeights, snake_beta_reference
from rhapsode.nn.packed import packed_stack
from rhapsode.nn.quantised import Int8Quantised, quantise
from rhapsode.nn.rope import RopeConfig
from rhapsode.nn.sampling import Gumbel, draw

pytestmark = pytest.mark.skipif(built.library() is None, reason="there is no C compiler")

PLAIN = DecoderConfig(hidden=24, ffn=40, layers=3, heads=4, kv_heads=2, head_dim=16, rope=RopeConfig(16), qk_norm=True)
BIASED = DecoderConfig(*(40, 72, 2, 3, 3, 8, None), qk_norm=False, eps=1e-5, attention_bias=True, output_bias=True)
ROWS, PAGE, PAGES = 5, 4, 3


def make_stack(config: DecoderConfig) -> DecoderStack:
    torch.manual_seed(3)
    stack = DecoderStack(config).requires_grad_(False)
    for parameter in stack.parameters():
        parameter.copy_((torch.randn_like(parameter) * 0.3).half().float())
    derive(stack)
    return stack


def speak(stack: DecoderStack, tokens: Tensor, only: int | None = None) -> Tensor:
    """Runs a prompt of three tokens with padding, then single tokens, of all rows or of one: [B, T, hidden]."""
    kv = PagedKV(stack.config.kv(), ROWS * PAGES, PAGE, torch.float32, torch.device("cpu"))
    table = SlotTable(ROWS, PAGES, torch.device("cpu"))
    table.join([SlotRow(slot=i, pages=range(1 + i * PAGES, 1 + (i + 1) * PAGES)) for i in range(ROWS)])
    slots = torch.arange(ROWS) if only is None else torch.tensor([only])
    rows, x = Rows(slots, table, (kv,)), tokens[slots]
    where, valid = torch.tensor([[0, 1, 2, 2]]).expand(len(x), -1), torch.tensor([[True, True, True, False]])
    padded = torch.cat((x[:, :3], x[:, 2:3]), dim=1)
    outputs = [_run(stack, padded, PagedAttention(kv, rows, where, valid.expand(len(x), -1)), where)[:, :3]]
    for at in range(3, x.shape[1]):
        where = torch.full((len(x), 1), at)
        outputs.append(_run(stack, x[:, at : at + 1], PagedAttention(kv, rows, where), where))
    return torch.cat(outputs, dim=1)


def _run(stack: DecoderStack, x: Tensor, backend: PagedAttention, where: Tensor) -> Tensor:
    return stack(x.clone(), stack.rotary(where, torch.float32), backend)


@pytest.mark.parametrize("config", [PLAIN, BIASED])
@pytest.mark.parametrize("half", [True, False])
def test_packed_layers_compute_what_the_modules_do(
    config: DecoderConfig, half: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack, tokens = make_stack(config), torch.randn(ROWS, 9, config.hidden)
    expected = speak(stack, tokens)
    monkeypatch.setattr("rhapsode.nn.kernels.cpu.weights.fits_half", lambda *weights: half)
    stack.program = packed_stack(stack)
    assert stack.program is not None
    assert torch.allclose(speak(stack, tokens), expected, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("config", [PLAIN, BIASED])
def test_packed_layers_of_eight_bits_are_near_the_modules(config: DecoderConfig) -> None:
    """The modules have the same weights, but do not round their inputs."""
    stack, tokens = make_stack(config), torch.randn(ROWS, 9, config.hidden)
    unrounded = speak(stack, tokens)
    for layer in stack.layers:
        quantise(layer, Int8Quantised)
    stack.program = packed_stack(stack)
    assert stack.program is not None
    made = speak(stack, tokens)
    error = (made - unrounded).square().mean().sqrt() / unrounded.std()
    assert 1e-4 < error < 0.03


@pytest.mark.parametrize(("inputs", "outputs"), [(24, 40), (64, 32), (200, 96), (131, 33)])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 13, 26])
def test_a_product_of_eight_bits_is_that_of_rounded_numbers(rows: int, inputs: int, outputs: int) -> None:
    torch.manual_seed(rows)
    weight, bias, x = (
        Int8Quantised(torch.randn(outputs, inputs)).packed,
        torch.randn(outputs),
        torch.randn(rows, inputs),
    )
    x[0, 5] = 100.0  # precision is lost beside it, and nowhere else
    spans = F.pad(x.double(), (0, -inputs % SPAN)).unflatten(1, (-1, SPAN))
    steps = spans.abs().amax(2, keepdim=True).clamp(min=1e-30) / 127
    rounded = ((spans / steps).round() * steps).flatten(1)[:, :inputs]
    expected = rounded @ (weight.values.double() * weight.scales[:, None].double()).T + bias
    wide = outputs + -outputs % PANEL
    made, weights, biases = torch.empty(rows, wide), byte_panels(weight), padded_bias(bias)
    kernels = built.library()
    assert kernels is not None
    given = (pointer(x), integer(rows), integer(inputs), integer(wide), pointer(made))
    kernels.multiply(pointer(weights), integer(WeightFormat.BYTES), pointer(biases), *given)
    torch.testing.assert_close(made[:, :outputs].double(), expected, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), float("-inf")])
def test_a_product_of_eight_bits_hides_no_number_that_is_not_finite(broken: float) -> None:
    weight, x, made = Int8Quantised(torch.randn(PANEL, SPAN)).packed, torch.randn(2, SPAN), torch.empty(2, PANEL)
    x[0, 7] = broken
    kernels, weights = built.library(), byte_panels(weight)
    assert kernels is not None
    given = (pointer(x), integer(2), integer(SPAN), integer(PANEL), pointer(made))
    kernels.multiply(pointer(weights), integer(WeightFormat.BYTES), None, *given)
    assert made.isfinite().all(dim=1).tolist() == [False, True]


@pytest.mark.parametrize("eight_bits", [False, True])
def test_a_row_has_the_same_bits_in_any_batch(eight_bits: bool) -> None:
    stack, tokens = make_stack(PLAIN), torch.randn(ROWS, 9, PLAIN.hidden)
    if eight_bits:
        quantise(stack, Int8Quantised)
    stack.program = packed_stack(stack)
    assert stack.program is not None
    together = speak(stack, tokens)
    for row in range(ROWS):
        assert torch.equal(speak(stack, tokens, only=row)[0], together[row])


@pytest.mark.parametrize("cores", [1, 2])
def test_two_threads_that_share_the_rows_compute_the_same_bits(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stack, tokens = make_stack(PLAIN), torch.randn(ROWS, 9, PLAIN.hidden)
    stack.program = packed_stack(stack)
    monkeypatch.setattr("rhapsode.nn.kernels.cpu.second_thread.cores", lambda: cores)
    monkeypatch.setattr(layers, "MANY_ROWS", 1000)
    expected = speak(stack, tokens)
    monkeypatch.setattr(layers, "MANY_ROWS", 2)
    for _ in range(20):  # whichever thread is first
        assert torch.equal(speak(stack, tokens), expected)


def test_neither_thread_waits_for_one_that_fails() -> None:
    stack = make_stack(PLAIN)
    stack.program = packed_stack(stack)
    with pytest.raises(IndexError, match="past the pages"):
        speak(stack, torch.randn(ROWS, PAGE * PAGES + 1, PLAIN.hidden))
    prompt, where = torch.randn(1, 16, PLAIN.hidden), torch.arange(16)[None]
    kv = PagedKV(PLAIN.kv(), PAGES, PAGE, torch.float32, torch.device("cpu"))
    rows = Rows(torch.tensor([0]), SlotTable(1, PAGES, torch.device("cpu")), (kv,))
    with pytest.raises(IndexError, match="past the pages"):
        _run(stack, prompt, PagedAttention(kv, rows, where), where)


def test_packing_keeps_every_weight() -> None:
    weight = torch.randn(40, 7).half().float()
    for half in (True, False):
        packed = panels(weight, half).float()
        assert torch.equal(packed.transpose(1, 2).flatten(0, 1)[:40], weight)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(0.0, 0, 1.0), (0.9, 50, 1.0), (1.3, 0, 0.8), (0.7, 100, 0.95), (2.0, 1, 0.5)]
)
def test_a_draw_is_that_of_the_operators(temperature: float, top_k: int, top_p: float) -> None:
    rows, ids, book = 200, 160, 3
    torch.manual_seed(5)
    scores = torch.randn(rows, ids) * 2
    scores[:, 7] = float("-inf")
    scores[:, 9] = scores[:, 8]  # a tie
    settings = Settings(torch.full((rows,), temperature), torch.full((rows,), top_k), torch.full((rows,), top_p))
    seeds, steps = torch.randint(-(2**62), 2**62, (rows,)), torch.arange(rows)
    noise = Gumbel([ids] * (book + 1), torch.device("cpu"))(seeds, steps)[book]
    expected = draw(scores, settings, noise)
    assert torch.equal(draw_code(scores, scores, settings, NoiseCounters(seeds, steps, book)), expected)
    assert len(expected.unique()) > 20


def test_without_a_compiler_there_are_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    built.library.cache_clear()
    try:
        monkeypatch.setenv("CC", "false")
        assert built.library() is None
    finally:
        monkeypatch.undo()
        built.library.cache_clear()


def test_a_snake_of_negative_frequencies_is_the_operators_snake() -> None:
    """Published codecs have such channels, and their sizes are negative, too."""
    frequency, x = torch.linspace(-2, 2, 16), torch.randn(7, 16)
    weights = SnakeWeights(frequency, 1 / frequency)
    chain = ConvolutionChain([ConvolutionStep(torch.eye(16)[:, :, None], None, tail=0, snake=weights)])
    found = chain(x, torch.zeros(0))
    expected = snake_beta_reference(x.T, frequency[:, None], 1 / frequency[:, None]).T
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-6)
