"""Attention of one new token per row, from the raw projection on: norms, rotary positions, the store, the look back.

One program serves one kv head of one row: its query heads, padded to a tensor core's 16 rows, share every key they
read. The new token's own key and value never leave the program's registers: they start the running softmax, so nothing
is read that this launch writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.heads import look, prepared
from rhapsode.nn.kernels.gpu.launch import after_predecessor, options, power_of_two

if TYPE_CHECKING:
    from rhapsode.nn.heads import Heads

QUERIES = 16
"""Rows of a tensor core's smallest product."""

MULTIPROCESSORS = 132


@triton.jit
def _token(
    raw,
    q_gain,
    k_gain,
    cos,
    sin,
    head,
    q_eps,
    k_eps,
    scale,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    QUERIES: tl.constexpr,
    NORM: tl.constexpr,
    TURN: tl.constexpr,
):
    """The queries `[QUERIES, BLOCK_D]` (scaled), the key and the value `[1, BLOCK_D]` of kv head `head`."""
    group: tl.constexpr = HEADS // KV_HEADS
    channel = tl.arange(0, BLOCK_D)[None, :]
    known = channel < D
    own = tl.arange(0, QUERIES)[:, None]
    query = prepared(
        raw + (head * group + own) * D, q_gain, cos, sin, known & (own < group), channel, q_eps, D, NORM, TURN
    )
    # A tile of one row: the same code norms and turns it.
    at = raw + (HEADS + head + tl.zeros((1, 1), tl.int32)) * D
    key = prepared(at, k_gain, cos, sin, known, channel, k_eps, D, NORM, TURN)
    value = tl.load(at + KV_HEADS * D + channel, mask=known, other=0.0)
    query = (query.to(tl.float32) * scale).to(query.dtype)
    return query, key, value


@triton.jit
def _paged(
    raw,
    q_gain,
    k_gain,
    cos,
    sin,
    keys,
    values,
    slots,
    tables,
    positions,
    out,
    q_eps,
    k_eps,
    scale,
    table_width,
    PAGE: tl.constexpr,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK: tl.constexpr,
    QUERIES: tl.constexpr,
    NORM: tl.constexpr,
    TURN: tl.constexpr,
    PRECISION: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    after_predecessor(OVERLAP)
    position = tl.load(positions + row)
    table = tables + tl.load(slots + row) * table_width
    raw += row * (HEADS + 2 * KV_HEADS) * D
    query, key, value = _token(
        raw, q_gain, k_gain, cos + row * D, sin + row * D, head, q_eps, k_eps, scale,
        HEADS, KV_HEADS, D, BLOCK_D, QUERIES, NORM, TURN,
    )  # fmt: skip
    channel = tl.arange(0, BLOCK_D)[None, :]
    known = channel < D
    cell = tl.load(table + position // PAGE) * PAGE + position % PAGE
    tl.store(keys + (cell * KV_HEADS + head) * D + channel, key, mask=known)
    tl.store(values + (cell * KV_HEADS + head) * D + channel, value, mask=known)

    most = tl.sum(query.to(tl.float32) * key.to(tl.float32), axis=1)  # [QUERIES]
    total = tl.full((QUERIES,), 1.0, tl.float32)
    sums = tl.zeros((QUERIES, BLOCK_D), tl.float32) + value.to(tl.float32)
    for start in range(0, position, BLOCK):
        where = start + tl.arange(0, BLOCK)
        seen = where < position
        cells = tl.load(table + where // PAGE, mask=seen, other=0) * PAGE + where % PAGE
        at = (cells * KV_HEADS + head)[:, None] * D + channel
        mask = seen[:, None] & known
        past_keys = tl.load(keys + at, mask=mask, other=0.0)
        past_values = tl.load(values + at, mask=mask, other=0.0)
        most, total, sums = look(query, past_keys, past_values, seen[None, :], most, total, sums, PRECISION)
    own = tl.arange(0, QUERIES)[:, None]
    group: tl.constexpr = HEADS // KV_HEADS
    where_out = out + (row * HEADS + head * group + own) * D + channel
    tl.store(where_out, (sums / total[:, None]).to(out.dtype.element_ty), mask=known & (own < group))


@triton.jit(do_not_specialize=["position"])
def _frame(
    raw,
    q_gain,
    k_gain,
    cos,
    sin,
    keys,
    values,
    position,
    out,
    q_eps,
    k_eps,
    scale,
    raw_stride,
    out_stride,
    MOST: tl.constexpr,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK: tl.constexpr,
    QUERIES: tl.constexpr,
    NORM: tl.constexpr,
    TURN: tl.constexpr,
    PRECISION: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    channel = tl.arange(0, BLOCK_D)[None, :]
    known = channel < D
    where = tl.arange(0, BLOCK)
    after_predecessor(OVERLAP)
    seen = where < position
    first = (row * KV_HEADS + head) * MOST
    at = (first + where)[:, None] * D + channel
    mask = seen[:, None] & known
    past_keys = tl.load(keys + at, mask=mask, other=0.0)
    past_values = tl.load(values + at, mask=mask, other=0.0)
    query, key, value = _token(
        raw + row * raw_stride, q_gain, k_gain, cos, sin, head, q_eps, k_eps, scale,
        HEADS, KV_HEADS, D, BLOCK_D, QUERIES, NORM, TURN,
    )  # fmt: skip
    tl.store(keys + (first + position) * D + channel, key, mask=known)
    tl.store(values + (first + position) * D + channel, value, mask=known)
    most = tl.sum(query.to(tl.float32) * key.to(tl.float32), axis=1)
    total = tl.full((QUERIES,), 1.0, tl.float32)
    sums = tl.zeros((QUERIES, BLOCK_D), tl.float32) + value.to(tl.float32)
    most, total, sums = look(query, past_keys, past_values, seen[None, :], most, total, sums, PRECISION)
    own = tl.arange(0, QUERIES)[:, None]
    group: tl.constexpr = HEADS // KV_HEADS
    where_out = out + row * out_stride + (head * group + own) * D + channel
    tl.store(where_out, (sums / total[:, None]).to(out.dtype.element_ty), mask=known & (own < group))


# --- launching ---


def paged(heads: Heads, keys: Tensor, values: Tensor, slots: Tensor, tables: Tensor, positions: Tensor) -> Tensor:
    """`keys` and `values [pages, page_size, kv_heads, D]` of one layer; row i is at `positions[i]` of `slots[i]`."""
    raw = heads.raw.contiguous()  # [B, 1, ..]
    batch = raw.shape[0]
    out = raw.new_empty(batch, 1, heads.heads * heads.head_dim)
    alone = batch * heads.kv_heads < MULTIPROCESSORS
    cos, sin = turns(heads)
    _paged[(batch, heads.kv_heads)](
        raw, *gains(heads), cos, sin, keys, values, slots, tables, positions.contiguous(), out,
        *constants(heads),
        tables.stride(0),
        PAGE=keys.shape[1],
        BLOCK=128 if alone else 64,
        num_warps=8 if alone else 4,
        num_stages=2,
        QUERIES=QUERIES,
        **shape(heads),
        **options(batch),
    )  # fmt: skip
    return out


def frame(heads: Heads, keys: Tensor, values: Tensor, position: int) -> Tensor:
    """`keys` and `values [B, kv_heads, most, D]`; tokens are at `position` and after, one launch each."""
    raw = heads.raw.contiguous()  # [B, T, ..]
    batch, length, width = raw.shape
    out = raw.new_empty(batch, length, heads.heads * heads.head_dim)
    cos, sin = turns(heads)
    for i in range(length):
        _frame[(batch, heads.kv_heads)](
            raw[:, i], *gains(heads),
            cos if heads.turn is None else cos[0, i], sin if heads.turn is None else sin[0, i],
            keys, values, position + i, out[:, i],
            *constants(heads),
            length * width,
            out.stride(0),
            MOST=keys.shape[2],
            BLOCK=power_of_two(keys.shape[2], 16),
            num_warps=1,  # what one warp can hold it need not share
            QUERIES=QUERIES,
            **shape(heads),
            **options(batch),
        )  # fmt: skip
    return out


def gains(heads: Heads) -> tuple[Tensor, Tensor]:
    if heads.q_norm is None or heads.k_norm is None:
        return heads.raw, heads.raw
    return heads.q_norm.weight, heads.k_norm.weight


def turns(heads: Heads) -> tuple[Tensor, Tensor]:
    """`[B or 1, T, 1, D]` each, dense."""
    if heads.turn is None:
        return heads.raw, heads.raw
    return heads.turn.cos.contiguous(), heads.turn.sin.contiguous()


def constants(heads: Heads) -> tuple[float, float, float]:
    q_eps = 0.0 if heads.q_norm is None else heads.q_norm.eps
    k_eps = 0.0 if heads.k_norm is None else heads.k_norm.eps
    return q_eps, k_eps, heads.head_dim**-0.5


def shape(heads: Heads) -> dict[str, object]:
    return {
        "HEADS": heads.heads,
        "KV_HEADS": heads.kv_heads,
        "D": heads.head_dim,
        "BLOCK_D": power_of_two(heads.head_dim, 16),
        "NORM": heads.q_norm is not None,
        "TURN": heads.turn is not None,
        "PRECISION": "ieee" if heads.raw.dtype == torch.float32 else "tf32",
    }
