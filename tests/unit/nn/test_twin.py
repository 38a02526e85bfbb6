"""Layers with two sets of norms and feed-forward networks: each position uses its own."""

import pytest
import torch

from rhapsode.device.kv import PagedKV
from rhapsode.device.slots import Rows, SlotRow, SlotTable
from rhapsode.nn.attention import PagedAttention
from rhapsode.nn.decoder import DecoderConfig, DecoderStack
from rhapsode.nn.rope import RopeConfig
from rhapsode.nn.twin import TwinStack

CPU = torch.device("cpu")
CONFIG = DecoderConfig(hidden=16, ffn=24, layers=2, heads=4, kv_heads=2, head_dim=6, rope=RopeConfig(6, 1000.0))
LENGTH = 9


@pytest.fixture(autouse=True)
def inference():
    torch.manual_seed(0)
    with torch.inference_mode():
        yield


@pytest.fixture
def twin() -> TwinStack:
    stack = TwinStack(CONFIG)
    for name, weight in stack.named_parameters():
        if "norm" in name:
            weight.uniform_(0.5, 1.5)  # all norms differ
    return stack


def run(stack: DecoderStack, x: torch.Tensor, audio: torch.Tensor | None, cuts: tuple[int, ...]) -> torch.Tensor:
    table = SlotTable(1, 4, CPU)
    table.join([SlotRow(slot=0, pages=[3, 1, 2])])
    kv = PagedKV(stack.config.kv(), 4, 5, torch.float32, CPU)
    out, start = [], 0
    for size in cuts:
        where = torch.arange(start, start + size)[None]
        backend = PagedAttention(kv, Rows(torch.tensor([0]), table), where)
        given = (x[:, start : start + size], stack.rotary(where, x.dtype), backend)
        if isinstance(stack, TwinStack):
            out.append(stack.run_layers(*given, None if audio is None else audio[:, start : start + size]))
        else:
            out.append(stack.run_layers(*given))
        start += size
    return torch.cat(out, dim=1)


def plain(twin: TwinStack, prefix: str) -> DecoderStack:
    """An ordinary stack with one of the two sets."""
    stack = DecoderStack(CONFIG)
    for i, layer in enumerate(stack.layers):
        there = twin.layers[i]
        layer.self_attn.load_state_dict(there.self_attn.state_dict())
        for name in ("input_layernorm", "post_attention_layernorm", "mlp"):
            getattr(layer, name).load_state_dict(getattr(there, prefix + name).state_dict())
    return stack


@pytest.mark.parametrize(("prefix", "is_audio"), [("", False), ("audio_", True)])
def test_positions_of_one_kind_use_one_set(twin: TwinStack, prefix: str, is_audio: bool) -> None:
    x = torch.randn(1, LENGTH, 16)
    kinds = torch.full((1, LENGTH), is_audio)
    expected = run(plain(twin, prefix), x, None, (LENGTH,))
    torch.testing.assert_close(run(twin, x, kinds, (LENGTH,)), expected, rtol=1e-5, atol=1e-5)


def test_decode_steps_are_audio_positions(twin: TwinStack) -> None:
    x = torch.randn(1, LENGTH, 16)
    kinds = torch.tensor([[False, True, False, True, True, False, True, True, True]])
    whole = run(twin, x, kinds, (LENGTH,))
    backend_cuts = run(twin, x, kinds, (4, 2, 3))
    torch.testing.assert_close(backend_cuts, whole, rtol=1e-5, atol=1e-5)
    audio = torch.ones(1, LENGTH, dtype=torch.bool)
    one_by_one = run(twin, x, None, (1,) * LENGTH)
    torch.testing.assert_close(one_by_one, run(twin, x, audio, (LENGTH,)), rtol=1e-5, atol=1e-5)
    assert (one_by_one - whole).abs().max() > 1e-2
