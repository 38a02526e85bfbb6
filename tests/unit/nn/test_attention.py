"""Attention over pages sees what it should, wherever the pages are and however the tokens came."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from rhapsode.device.kv import KVLayout, PagedKV
from rhapsode.device.slots import Rows, SlotRow, SlotTable
from rhapsode.nn.attention import PagedAttention
from rhapsode.nn.kernels.attention import attention

CPU = torch.device("cpu")
HEADS, KV_HEADS, DIM, PAGE = 6, 2, 8, 4
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def tokens(batch: int, length: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    query = random(batch, length, HEADS, DIM, seed=seed)
    return (
        query,
        random(batch, length, KV_HEADS, DIM, seed=seed + 1),
        random(batch, length, KV_HEADS, DIM, seed=seed + 2),
    )


def one_pass(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    whole = scaled_dot_product_attention(
        query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), is_causal=True, enable_gqa=True
    )
    return whole.transpose(1, 2)


def paging(*pages: list[int]) -> Rows:
    table = SlotTable(4, 8, CPU)
    table.join([SlotRow(slot=i, pages=list(own)) for i, own in enumerate(pages)])
    return Rows(torch.arange(len(pages)), table, (PagedKV(KVLayout(2, KV_HEADS, DIM), 16, PAGE, torch.float32, CPU),))


@pytest.mark.parametrize("length", [1, 5])
def test_grouped_heads_share_keys_as_repeated_ones_would(length: int) -> None:
    query = random(3, length, HEADS, DIM)
    past = random(3, 7, KV_HEADS, DIM, seed=9)
    mask = torch.arange(7) <= torch.arange(length)[:, None] + 2
    expected = scaled_dot_product_attention(
        query.transpose(1, 2), past.transpose(1, 2), past.transpose(1, 2), attn_mask=mask, enable_gqa=True
    ).transpose(1, 2)
    torch.testing.assert_close(attention(query, past, past, ~mask.expand(3, -1, -1)), expected, **CLOSE)


@pytest.mark.parametrize("cuts", [[11], [4, 7], [1] * 11, [3, 1, 5, 2]])
def test_chunks_and_single_tokens_add_up_to_one_pass(cuts: list[int]) -> None:
    query, key, value = tokens(2, 11)
    rows = paging([5, 2, 9], [3, 11, 1])
    pieces, start = [], 0
    for size in cuts:
        where = torch.arange(start, start + size).expand(2, -1)
        span = slice(start, start + size)
        pieces.append(PagedAttention(rows.kv[0], rows, where).attend(1, query[:, span], key[:, span], value[:, span]))
        start += size
    torch.testing.assert_close(torch.cat(pieces, dim=1), one_pass(query, key, value), **CLOSE)


def test_ragged_chunks_are_each_what_they_are_alone() -> None:
    query, key, value = tokens(3, 6)
    starts, lengths = [0, 3, 0], [6, 2, 0]
    rows = paging([1, 2], [3, 4], [5, 6])
    earlier = tokens(1, 3, seed=20)
    PagedAttention(rows.kv[0], Rows(torch.tensor([1]), rows.table), torch.arange(3)[None]).attend(0, *earlier)
    where = torch.tensor(
        [[min(s + i, max(s, s + n - 1)) for i in range(6)] for s, n in zip(starts, lengths, strict=True)]
    )
    valid = torch.arange(6) < torch.tensor(lengths)[:, None]
    seen = PagedAttention(rows.kv[0], rows, where, valid).attend(0, query, key, value)
    torch.testing.assert_close(seen[:1], one_pass(query[:1], key[:1], value[:1]), **CLOSE)
    joined = [torch.cat([a, b[1:2, :2]], dim=1) for a, b in zip(earlier, (query, key, value), strict=True)]
    torch.testing.assert_close(seen[1:2, :2], one_pass(*joined)[:, 3:], **CLOSE)


def test_tokens_that_only_fill_up_a_row_are_written_to_scratch_alone() -> None:
    query, key, value = tokens(2, 4)
    rows = paging([1], [2])
    before = rows.kv[0].keys.clone()
    valid = torch.tensor([[True] * 4, [True, False, False, False]])
    where = torch.tensor([[0, 1, 2, 3], [0, 0, 0, 0]])
    PagedAttention(rows.kv[0], rows, where, valid).attend(0, query, key, value)
    written = (rows.kv[0].keys != before).flatten(3).any(-1)[0]  # [pages, page_size]
    assert written[1].tolist() == [True] * 4
    assert written[2].tolist() == [True, False, False, False]
    assert not written[3:].any()


def test_where_the_pages_are_changes_nothing() -> None:
    query, key, value = tokens(1, 9)
    results = []
    for pages in ([1, 2, 3], [9, 4, 12]):
        rows = paging(pages)
        results.append(PagedAttention(rows.kv[0], rows, torch.arange(9)[None]).attend(0, query, key, value))
    assert torch.equal(*results)


def test_what_an_earlier_owner_left_in_a_page_is_not_seen() -> None:
    query, key, value = tokens(1, 3)
    rows = paging([1, 2])
    rows.kv[0].keys.fill_(1e4)
    rows.kv[0].values.fill_(1e4)
    seen = PagedAttention(rows.kv[0], rows, torch.arange(3)[None]).attend(0, query, key, value)
    torch.testing.assert_close(seen, one_pass(query, key, value), **CLOSE)


def test_half_precision_pages_serve_a_wider_model() -> None:
    query, key, value = tokens(1, 5)
    rows = paging([1, 2])
    half = PagedKV(KVLayout(2, KV_HEADS, DIM), 16, PAGE, torch.bfloat16, CPU)
    seen = PagedAttention(half, rows, torch.arange(5)[None]).attend(0, query, key, value)
    assert seen.dtype == torch.float32
    torch.testing.assert_close(seen, one_pass(query, key, value), rtol=0.05, atol=0.05)
