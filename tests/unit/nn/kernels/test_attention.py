"""Fused attention stores what the reference stores, and returns what it returns."""

from dataclasses import replace

import pytest
import torch

from rhapsode.device.kv import KVLayout, PagedKV
from rhapsode.device.slots import Rows, SlotRow, SlotTable
from rhapsode.nn import kernels
from rhapsode.nn.attention import PagedAttention, PagesAttention
from rhapsode.nn.decoder import DecoderConfig, DecoderStack
from rhapsode.nn.depth import DepthStack
from rhapsode.nn.kernels.attention import KVPages
from rhapsode.nn.kernels.heads import HeadNorm, ProjectedHeads
from rhapsode.nn.rope import Rope, RopeConfig

CLOSE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.float16: {"rtol": 4e-3, "atol": 4e-3},
    torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2},
}
PAGE = 4
SHAPES = {"two to one": (4, 2, 16), "odd heads": (6, 2, 6), "no groups": (2, 2, 8)}  # heads, kv heads, channels


def head_norm(dim: int, device: torch.device, dtype: torch.dtype) -> HeadNorm:
    query, key = (torch.rand(2, dim) + 0.5).to(device, dtype)
    return HeadNorm(query, key, 1e-6)


def paging(device: torch.device, *pages: list[int]) -> Rows:
    table = SlotTable(4, 64, device)
    table.join([SlotRow(slot=i, pages=own) for i, own in enumerate(pages)])
    return Rows(torch.arange(len(pages) - 1, -1, -1, device=device), table)  # slots in another order than rows


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("plain", [False, True], ids=["normed and rotated", "neither"])
@pytest.mark.parametrize("programs", ["few", "more", "many"])
def test_one_token_a_row_over_pages(device, dtype, shape, plain, programs, monkeypatch) -> None:
    for name, least in {"few": {}, "more": {"MULTIPROCESSORS": 1}, "many": {"MANY_PROGRAMS": 1}}[programs].items():
        monkeypatch.setattr(f"rhapsode.nn.kernels.gpu.attention.{name}", least)
    heads, kv_heads, dim = shape
    rows = paging(device, [5, 2, 9], list(range(10, 52)), [4])
    positions = torch.tensor([0, 150, 9], device=device)[:, None]  # of slots 2, 1, 0: nothing, several blocks, some
    kv = PagedKV(KVLayout(2, kv_heads, dim), 60, PAGE, dtype, device)
    kv.keys.copy_(torch.randn(kv.keys.shape))
    kv.values.copy_(torch.randn(kv.values.shape))
    other = PagedKV(KVLayout(2, kv_heads, dim), 60, PAGE, dtype, device)
    other.keys.copy_(kv.keys), other.values.copy_(kv.values)
    rotary = Rope(RopeConfig(dim, 1000.0)).to(device)(positions, dtype)
    norm = head_norm(dim, device, dtype)
    qkv = torch.randn(3, 1, (heads + 2 * kv_heads) * dim).to(device, dtype)
    given = ProjectedHeads(qkv, heads, kv_heads, dim, *(() if plain else (norm, rotary)))
    with kernels.use("off"):
        expected = PagedAttention(kv, rows, positions).attend_heads(1, given)
    with kernels.use("always"):
        found = PagedAttention(other, rows, positions).attend_heads(1, given)
    torch.testing.assert_close(found, expected, **CLOSE[dtype])
    torch.testing.assert_close(other.keys, kv.keys, **CLOSE[dtype])
    assert torch.equal(other.values, kv.values)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("plain", [False, True], ids=["normed and rotated", "neither"])
def test_chunks_of_prompts_over_pages(device, dtype, shape, plain) -> None:
    heads, kv_heads, dim = shape
    rows = paging(device, [5, 2, 9], list(range(10, 52)), list(range(52, 60)))
    length = 21
    starts, lengths = torch.tensor([[0], [130], [3]]), torch.tensor([[21], [20], [5]])  # of slots 2, 1, 0
    steps = torch.arange(length)
    positions = (starts + torch.minimum(steps, lengths - 1)).to(device)
    valid = (steps < lengths).to(device)
    kv = PagedKV(KVLayout(2, kv_heads, dim), 60, PAGE, dtype, device)
    kv.keys.copy_(torch.randn(kv.keys.shape))
    kv.values.copy_(torch.randn(kv.values.shape))
    other = PagedKV(KVLayout(2, kv_heads, dim), 60, PAGE, dtype, device)
    other.keys.copy_(kv.keys), other.values.copy_(kv.values)
    rotary = Rope(RopeConfig(dim, 1000.0)).to(device)(positions, dtype)
    norm = head_norm(dim, device, dtype)
    qkv = torch.randn(3, length, (heads + 2 * kv_heads) * dim).to(device, dtype)
    given = ProjectedHeads(qkv, heads, kv_heads, dim, *(() if plain else (norm, rotary)))
    with kernels.use("off"):
        expected = PagedAttention(kv, rows, positions, valid).attend_heads(1, given)
    with kernels.use("always"):
        found = PagedAttention(other, rows, positions, valid).attend_heads(1, given)
    torch.testing.assert_close(found[valid], expected[valid], **CLOSE[dtype])
    torch.testing.assert_close(other.keys[:, 1:], kv.keys[:, 1:], **CLOSE[dtype])  # page 0 is scratch
    assert torch.equal(other.values[:, 1:], kv.values[:, 1:])


CONFIG = DecoderConfig(
    hidden=16, ffn=24, layers=2, heads=4, kv_heads=2, head_dim=6, rope=RopeConfig(6, 1000.0), qk_norm=True
)
VARIANTS = {
    "qwen": CONFIG,
    "no positions": replace(CONFIG, rope=None, qk_norm=False),
    "layer norm, gelu, biases": replace(CONFIG, norm="layer", mlp="gelu", attention_bias=True, output_bias=True),
}


@pytest.mark.parametrize("rows_that_read_back", [1, 100], ids=["read back", "kept"])
@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_a_depth_stack_by_kernels_is_the_plain_one(device, config, rows_that_read_back, monkeypatch) -> None:
    from rhapsode.nn.kernels.gpu import attention

    monkeypatch.setattr(attention, "READ_BACK_ROWS", rows_that_read_back)
    stack, x = DepthStack(config, max_tokens=4).to(device), torch.randn(2, 4, 16, device=device)
    results = []
    for mode in ("off", "always"):
        with kernels.use(mode):
            frame = stack.begin(2, torch.float32, device)
            pieces = [stack.advance(x[:, a:b].clone(), frame) for a, b in ((0, 2), (2, 3), (3, 4))]
            results.append(torch.cat(pieces, dim=1))
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


def test_a_stack_over_pages_by_kernels_is_the_plain_one(device) -> None:
    stack, x = DecoderStack(CONFIG).to(device), torch.randn(3, 4, 16, device=device)
    rows, results = paging(device, [1, 2], [3, 4], [5, 6]), []
    for mode in ("off", "always"):
        kv = PagedKV(CONFIG.kv(), 8, PAGE, torch.float32, device)
        out = []
        with kernels.use(mode):
            for a, b in ((0, 2), (2, 3), (3, 4)):  # a prompt, then token by token
                where = torch.arange(a, b, device=device).expand(3, -1)
                out.append(stack(x[:, a:b].clone(), stack.rotary(where, x.dtype), PagedAttention(kv, rows, where)))
        results.append(torch.cat(out, dim=1))
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [6, 50, 70])  # 70: more than one launch takes
def test_blocks_whose_tokens_attend_to_each_other_and_rotate_one_head(device, dtype, length, monkeypatch) -> None:
    if not torch.cuda.is_available():
        monkeypatch.setattr("rhapsode.nn.kernels.gpu.prompt.MULTIPROCESSORS", 1)  # so that 64 tokens are one tile
    heads, dim = 3, 8
    rows = paging(device, [5, 2, *range(60, 68)], list(range(10, 60)))
    starts, counts = torch.tensor([[120], [4]]), torch.tensor([[length], [length // 2]])  # of slots 1, 0
    steps = torch.arange(length)
    positions, valid = (starts + steps).to(device), (steps < counts).to(device)
    last = (starts + counts - 1).expand(-1, length).to(device)
    qkv = torch.randn(2, length, 3 * heads * dim).to(device, dtype)
    rotary = Rope(RopeConfig(dim, 1000.0)).to(device)(positions, dtype)
    given = ProjectedHeads(qkv, heads, heads, dim, rotary=rotary, rotated=1)
    made = []
    for mode in ("off", "always"):
        torch.manual_seed(1)
        keys, values = (torch.randn(2, 68, PAGE, heads, dim).to(device, dtype) for _ in range(2))
        pages = KVPages(keys, values, rows.slots, rows.table.pages)
        with kernels.use(mode):
            made.append((PagesAttention(pages, positions, valid, last).attend_heads(1, given), keys[:, 1:]))
    (expected, expected_keys), (found, found_keys) = made
    torch.testing.assert_close(found[valid], expected[valid], **CLOSE[dtype])
    torch.testing.assert_close(found_keys, expected_keys, **CLOSE[dtype])
