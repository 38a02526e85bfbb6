"""Attention of one new token per row, from the qkv projection on: norm, rotary embedding, KV store and softmax.

One program serves one KV head of one row. Its query heads, padded to the 16 rows of a tensor core product, share every
key they read. The new token's own key and value start the online softmax from registers, or are read back by the
program that stored them: no program reads what another one of the same launch writes.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.heads import (
    attend_block,
    constants,
    load_heads,
    load_turn,
    norm_eps,
    norm_weights,
    rotary_tables,
    turned,
)
from rhapsode.nn.kernels.gpu.launch import (
    MULTIPROCESSORS,
    let_next_start,
    options,
    power_of_two,
    shared_memory,
    wait_for_previous,
)
from rhapsode.nn.kernels.heads import ProjectedHeads

QUERIES = 16
"""Rows of the smallest tensor core product."""

MANY_PROGRAMS = 512
"""From this many programs on, each is a single warp: more of them fit a multiprocessor, so more loads are in flight."""

READ_BACK_ROWS = 17
"""From this many rows on, a program of `_frame` reads its own key and value back and treats them like past ones. That
takes a quarter fewer instructions, which limit speed where many programs share a multiprocessor (512 rows 13.7 to 11.6
us). With fewer rows, the past is loaded before the token."""


@triton.jit
def load_token(
    qkv, turn, key_turn, head, eps, scale,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, QUERIES: tl.constexpr,
    NORM: tl.constexpr, ROTARY: tl.constexpr,
):  # fmt: skip
    """Returns the scaled queries `[QUERIES, BLOCK_D]`, the key and the value `[1, BLOCK_D]` of KV head `head`."""
    group: tl.constexpr = HEADS // KV_HEADS
    channel = tl.arange(0, BLOCK_D)[None, :]
    known = channel < D
    own = tl.arange(0, QUERIES)[:, None]
    # The key is a tile of one row, so that the same code serves it.
    at = qkv + (HEADS + head + tl.zeros((1, 1), tl.int32)) * D
    queries = load_heads(qkv + (head * group + own) * D, known & (own < group), channel, D, ROTARY)
    keys = load_heads(at, known, channel, D, ROTARY)
    value = tl.load(at + KV_HEADS * D + channel, mask=known, other=0.0)
    query = turned(queries, turn, eps, D, NORM, ROTARY)
    key = turned(keys, key_turn, eps, D, NORM, ROTARY)
    query = (query.to(tl.float32) * scale).to(query.dtype)
    return query, key, value


@triton.jit
def _past(
    keys, values, table, start, position, head,
    PAGE: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Loads the keys and values of a block of positions, and says which of them are before `position`."""
    channel = tl.arange(0, BLOCK_D)[None, :]
    where = start + tl.arange(0, BLOCK)
    visible = where < position
    cells = tl.load(table + where // PAGE, mask=visible, other=0).to(tl.int32) * PAGE + where % PAGE
    at = (cells * KV_HEADS + head).to(tl.int64)[:, None] * D + channel
    mask = visible[:, None] & (channel < D)
    return tl.load(keys + at, mask=mask, other=0.0), tl.load(values + at, mask=mask, other=0.0), visible[None, :]


@triton.jit
def _paged(
    qkv, q_weight, k_weight, cos, sin, keys, values, slots, tables, positions, out, eps, scale, table_width,
    PAGE: tl.constexpr, HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK: tl.constexpr, QUERIES: tl.constexpr, NORM: tl.constexpr, ROTARY: tl.constexpr, PRECISION: tl.constexpr,
    AHEAD: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    let_next_start(OVERLAP)
    position = tl.load(positions + row).to(tl.int32)  # numbers of 64 bits would take two instructions each
    table = tables + tl.load(slots + row) * table_width
    channel = tl.arange(0, BLOCK_D)[None, :]
    known = channel < D
    if AHEAD:  # the past does not change within a step, and every step begins with kernels that do not overlap
        past_keys, past_values, visible = _past(
            keys, values, table, 0, position, head, PAGE, KV_HEADS, D, BLOCK_D, BLOCK
        )
    cell = tl.load(table + position // PAGE) * PAGE + position % PAGE
    turn = load_turn(q_weight, cos + row * D, sin + row * D, channel, D, NORM, ROTARY)
    key_turn = load_turn(k_weight, cos + row * D, sin + row * D, channel, D, NORM, ROTARY)
    wait_for_previous(OVERLAP)
    qkv += row * (HEADS + 2 * KV_HEADS) * D
    query, key, value = load_token(
        qkv, turn, key_turn, head, eps, scale, HEADS, KV_HEADS, D, BLOCK_D, QUERIES, NORM, ROTARY
    )
    tl.store(keys + (cell * KV_HEADS + head) * D + channel, key, mask=known)
    tl.store(values + (cell * KV_HEADS + head) * D + channel, value, mask=known)

    highest = tl.sum(query.to(tl.float32) * key.to(tl.float32), axis=1)  # [QUERIES]
    total = tl.full((QUERIES,), 1.0, tl.float32)
    sums = tl.zeros((QUERIES, BLOCK_D), tl.float32) + value.to(tl.float32)
    if AHEAD:
        highest, total, sums = attend_block(query, past_keys, past_values, visible, highest, total, sums, PRECISION)
    for start in range(BLOCK if AHEAD else 0, position, BLOCK):
        past_keys, past_values, visible = _past(
            keys, values, table, start, position, head, PAGE, KV_HEADS, D, BLOCK_D, BLOCK
        )
        highest, total, sums = attend_block(query, past_keys, past_values, visible, highest, total, sums, PRECISION)
    own = tl.arange(0, QUERIES)[:, None]
    group: tl.constexpr = HEADS // KV_HEADS
    where_out = out + (row * HEADS + head * group + own) * D + channel
    tl.store(where_out, (sums * (1.0 / total)[:, None]).to(out.dtype.element_ty), mask=known & (own < group))


@triton.jit(do_not_specialize=["position"])
def _frame(
    qkv, q_weight, k_weight, cos, sin, keys, values, position, out, eps, scale, qkv_stride, out_stride,
    MAX_TOKENS: tl.constexpr, HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK: tl.constexpr, QUERIES: tl.constexpr, NORM: tl.constexpr, ROTARY: tl.constexpr, PRECISION: tl.constexpr,
    AHEAD: tl.constexpr, READ_BACK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    channel = tl.arange(0, BLOCK_D)[None, :]
    known = channel < D
    where = tl.arange(0, BLOCK)
    first = (row * KV_HEADS + head) * MAX_TOKENS * D
    keys, values = keys + first, values + first
    at = where[:, None] * D + channel
    if not AHEAD:
        wait_for_previous(OVERLAP)
    if not READ_BACK:
        visible = where < position
        past_keys = tl.load(keys + at, mask=visible[:, None] & known, other=0.0)
        past_values = tl.load(values + at, mask=visible[:, None] & known, other=0.0)
    turn = load_turn(q_weight, cos, sin, channel, D, NORM, ROTARY)
    key_turn = load_turn(k_weight, cos, sin, channel, D, NORM, ROTARY)
    if AHEAD:
        wait_for_previous(OVERLAP)
    query, key, value = load_token(
        qkv + row * qkv_stride, turn, key_turn, head, eps, scale,
        HEADS, KV_HEADS, D, BLOCK_D, QUERIES, NORM, ROTARY,
    )  # fmt: skip
    tl.store(keys + position * D + channel, key, mask=known)
    tl.store(values + position * D + channel, value, mask=known)
    if READ_BACK:
        tl.debug_barrier()  # what this program stored can be read by all its threads
        visible = where <= position
        past_keys = tl.load(keys + at, mask=visible[:, None] & known, other=0.0)
        past_values = tl.load(values + at, mask=visible[:, None] & known, other=0.0)
        scores = tl.dot(query, past_keys.T, input_precision=PRECISION)
        scores = tl.where(visible[None, :], scores, float("-inf"))
        weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
        total = tl.sum(weights, axis=1)
        sums = tl.dot(weights.to(value.dtype), past_values, input_precision=PRECISION)
    else:
        highest = tl.sum(query.to(tl.float32) * key.to(tl.float32), axis=1)
        total = tl.full((QUERIES,), 1.0, tl.float32)
        sums = tl.zeros((QUERIES, BLOCK_D), tl.float32) + value.to(tl.float32)
        highest, total, sums = attend_block(
            query, past_keys, past_values, visible[None, :], highest, total, sums, PRECISION
        )
    own = tl.arange(0, QUERIES)[:, None]
    group: tl.constexpr = HEADS // KV_HEADS
    where_out = out + row * out_stride + (head * group + own) * D + channel
    tl.store(where_out, (sums * (1.0 / total)[:, None]).to(out.dtype.element_ty), mask=known & (own < group))


# --- launching ---


def paged(
    heads: ProjectedHeads, keys: Tensor, values: Tensor, slots: Tensor, tables: Tensor, positions: Tensor
) -> Tensor:
    """Attends over one layer's pages `[pages, page_size, kv_heads, D]`; row i is at `positions[i]` of `slots[i]`."""
    qkv = heads.qkv.contiguous()  # [B, 1, ..]
    batch = qkv.shape[0]
    out = qkv.new_empty(batch, 1, heads.heads * heads.head_dim)
    tile = _tile(batch * heads.kv_heads, heads)
    _paged[(batch, heads.kv_heads)](
        qkv, *norm_weights(heads), *rotary_tables(heads), keys, values, slots, tables, positions.contiguous(), out,
        norm_eps(heads), heads.head_dim**-0.5, tables.stride(0),
        PAGE=keys.shape[1],
        BLOCK=tile.block,
        AHEAD=tile.ahead,
        num_warps=tile.warps,
        num_stages=2,
        QUERIES=QUERIES,
        **constants(heads),
        **options(batch),
    )  # fmt: skip
    return out


class PagedTile(NamedTuple):
    """How a program of `_paged` goes through the past."""

    block: int
    """Positions that are read at once."""
    warps: int
    ahead: bool
    """The first block is loaded before the program waits for its input."""


def _tile(programs: int, heads: ProjectedHeads) -> PagedTile:
    """Returns the fastest tile that was measured. Times are of one layer of Qwen3-TTS on an H200, at 200 positions."""
    if programs >= MANY_PROGRAMS:
        return PagedTile(32, 1, False)  # 256 rows 59 us; 70 with two warps and blocks of 64, 88 with four
    if programs >= MULTIPROCESSORS:
        return PagedTile(64, 2, False)
    # Blocks of 256 instead of 128: a frame of one row takes 0.1 ms less.
    both = 2 * 256 * heads.head_dim * heads.qkv.element_size()
    fits = both <= min(128 << 10, shared_memory() - (16 << 10))
    return PagedTile(256, 8, True) if fits else PagedTile(128, 8, True)


def frame(heads: ProjectedHeads, keys: Tensor, values: Tensor, position: int) -> Tensor:
    """Lets each new token attend to itself and the earlier tokens of its frame. Launches one kernel per new token.

    `keys` and `values [B, kv_heads, max tokens, D]` hold the tokens of the frame; new ones are added to them, the first
    at index `position`.
    """
    qkv = heads.qkv.contiguous()  # [B, T, ..]
    batch, length, width = qkv.shape
    out = qkv.new_empty(batch, length, heads.heads * heads.head_dim)
    cos, sin = rotary_tables(heads)
    launch = options(batch)
    # The past is loaded before the projection is ready: 1 row 2.55 to 2.48 ms. Where kernels start early, or follow
    # each other at once, the kernel that stored the past may not have ended.
    ahead = length == 1 and launch["OVERLAP"] == 1
    for i in range(length):
        _frame[(batch, heads.kv_heads)](
            qkv[:, i], *norm_weights(heads),
            cos if heads.rotary is None else cos[0, i], sin if heads.rotary is None else sin[0, i],
            keys, values, position + i, out[:, i],
            norm_eps(heads), heads.head_dim**-0.5, length * width, out.stride(0),
            MAX_TOKENS=keys.shape[2],
            BLOCK=power_of_two(keys.shape[2], 16),
            num_warps=1,  # one warp holds it all, and needs no synchronisation
            QUERIES=QUERIES,
            AHEAD=ahead,
            READ_BACK=batch >= READ_BACK_ROWS,
            **constants(heads),
            **launch,
        )  # fmt: skip
    return out
