"""One decoder layer for every family: its variants, its rotary positions, its norms."""

from dataclasses import replace

import pytest
import torch

from rhapsode.device.kv import PagedKV
from rhapsode.device.slots import Rows, SlotRow, SlotTable
from rhapsode.nn.attention import PagedAttention
from rhapsode.nn.decoder import DecoderConfig, DecoderStack
from rhapsode.nn.depth import DepthStack
from rhapsode.nn.norm import RMSNorm
from rhapsode.nn.rope import Llama3Scaling, Rope, RopeConfig, inv_freq

CPU = torch.device("cpu")
PLAIN = DecoderConfig(
    hidden=16, ffn=24, layers=2, heads=4, kv_heads=2, head_dim=6, rope=RopeConfig(6, 1000.0), qk_norm=True
)
VARIANTS = {
    "qwen": PLAIN,
    "no positions": replace(PLAIN, rope=None, qk_norm=False),
    "layer norm and gelu": replace(PLAIN, norm="layer", mlp="gelu", attention_bias=True),
    "one kv head": replace(PLAIN, kv_heads=1),
    "gpt-2": replace(PLAIN, norm="layer", mlp="gelu_tanh", attention_bias=True, output_bias=True, mlp_bias=True),
}
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(autouse=True)
def inference():
    torch.manual_seed(0)
    with torch.inference_mode():
        yield


def run(stack: DecoderStack, x: torch.Tensor, cuts: list[int]) -> torch.Tensor:
    table = SlotTable(1, 4, CPU)
    table.join([SlotRow(slot=0, pages=[3, 1, 2])])
    rows = Rows(torch.tensor([0]), table)
    kv = PagedKV(stack.config.kv(), 4, 5, torch.float32, CPU)
    out, start = [], 0
    for size in cuts:
        where = torch.arange(start, start + size)[None]
        out.append(stack(x[:, start : start + size], stack.rotary(where, x.dtype), PagedAttention(kv, rows, where)))
        start += size
    return torch.cat(out, dim=1)


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_token_by_token_equals_all_at_once(config: DecoderConfig) -> None:
    stack, x = DecoderStack(config), torch.randn(1, 12, 16)
    whole = run(stack, x, [12])
    torch.testing.assert_close(run(stack, x, [1] * 12), whole, **CLOSE)
    torch.testing.assert_close(run(stack, x, [5, 1, 6]), whole, **CLOSE)


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_a_depth_stack_is_the_same_stack_with_keys_and_values_of_its_own(config: DecoderConfig) -> None:
    stack, x = DepthStack(config, max_tokens=7), torch.randn(3, 7, 16)
    whole = torch.cat([run(stack, row[None], [7]) for row in x])
    frame = stack.begin(3, torch.float32, CPU)
    pieces = [stack.advance(x[:, a:b], frame) for a, b in ((0, 2), (2, 3), (3, 4), (4, 7))]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, **CLOSE)


def test_a_frame_knows_nothing_of_the_frame_before() -> None:
    stack, x = DepthStack(PLAIN, max_tokens=4), torch.randn(1, 4, 16)
    frames = []
    for _ in range(2):
        frame = stack.begin(1, torch.float32, CPU)
        frames.append([stack.advance(x[:, i : i + 1], frame) for i in range(4)])
        torch.rand(100_000)  # so that memory is handed out anew
    assert all(torch.equal(a, b) for a, b in zip(*frames, strict=True))


def test_positions_matter_only_by_their_distance() -> None:
    rope = Rope(RopeConfig(8, 100.0))
    query, key = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)

    def product(at: int, other: int) -> torch.Tensor:
        rotated = [rope(torch.tensor([[p]]), torch.float32).rotate(x) for p, x in ((at, query), (other, key))]
        return (rotated[0] * rotated[1]).sum()

    torch.testing.assert_close(product(3, 1), product(103, 101), rtol=1e-4, atol=1e-4)
    assert abs(product(3, 1) - product(4, 1)) > 1e-3


def test_a_rotation_keeps_lengths_and_leaves_position_zero_alone() -> None:
    rope, x = Rope(RopeConfig(8)), torch.randn(1, 2, 3, 8)
    rotated = rope(torch.tensor([[0, 7]]), torch.float32).rotate(x)
    assert torch.equal(rotated[:, 0], x[:, 0])
    torch.testing.assert_close(rotated.norm(dim=-1), x.norm(dim=-1))


def test_frequencies_fall_from_one_to_the_inverse_of_theta() -> None:
    found = inv_freq(RopeConfig(128, 1e6))
    assert found[0] == 1
    assert found[-1] == pytest.approx(1e6 ** (-126 / 128), rel=1e-5)


LLAMA3 = Llama3Scaling(32.0, 0.125, 0.5, 64)


def test_llama3_keeps_short_wavelengths_and_stretches_long_ones() -> None:
    plain, scaled = (inv_freq(RopeConfig(32, 500_000.0, llama3=llama3)) for llama3 in (None, LLAMA3))
    turns = 64 * plain / (2 * torch.pi)
    assert torch.equal(scaled[turns > 0.5], plain[turns > 0.5])
    torch.testing.assert_close(scaled[turns < 0.125], plain[turns < 0.125] / 32)
    between = (turns > 0.125) & (turns < 0.5)
    assert between.any()
    assert ((scaled < plain) & (scaled > plain / 32))[between].all()


def test_llama3_depends_on_the_ratio_of_context_and_factors_alone() -> None:
    usual = Llama3Scaling(32.0, 1.0, 4.0, 512)
    found = [inv_freq(RopeConfig(32, 500_000.0, llama3=scaling)) for scaling in (LLAMA3, usual)]
    torch.testing.assert_close(*found)


def test_frequencies_are_real_on_the_meta_device() -> None:
    with torch.device("meta"):
        stack = DecoderStack(PLAIN)
    assert stack.norm.weight.is_meta
    assert not stack.rope.inv_freq.is_meta


def test_rms_norm_computes_wide_and_answers_narrow() -> None:
    norm = RMSNorm(64, eps=1e-6).bfloat16()
    x = torch.randn(4, 64).bfloat16() * 1e3
    expected = x.float() / x.float().square().mean(-1, keepdim=True).sqrt()
    assert norm(x).dtype == torch.bfloat16
    torch.testing.assert_close(norm(x).float(), expected, rtol=1e-2, atol=1e-2)


def test_rotary_tables_may_have_the_precision_of_bfloat16_in_every_dtype() -> None:
    positions = torch.arange(300)[None]
    exact, rounded = (Rope(RopeConfig(8, rounded=r))(positions, torch.float64) for r in (False, True))
    for fine, coarse in zip(exact, rounded, strict=True):
        assert torch.equal(coarse, fine.float().bfloat16().double())
        assert not torch.equal(coarse, fine)
