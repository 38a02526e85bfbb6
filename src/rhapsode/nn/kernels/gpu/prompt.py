"""Attention of prompts: chunks of many tokens per row, from the qkv projection on.

A short chunk is one launch: a program has all its tokens, stores their keys and values and attends to them from
registers, and then to the chunks before, in the pages. A longer chunk is two launches: the first norms and rotates the
keys, and stores keys and values; the second norms and rotates the queries, and attends to the pages. Padding tokens are
not stored.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.heads import (
    attend_block,
    attend_scores,
    constants,
    norm_and_rotate_some,
    norm_eps,
    norm_weights,
    rotary_tables,
)
from rhapsode.nn.kernels.gpu.launch import MULTIPROCESSORS, blocks, options, power_of_two, wait_for_previous
from rhapsode.nn.kernels.heads import ProjectedHeads

BLOCK = 64
"""Positions of the past that one iteration attends to."""


MAX_SHORT = 64
"""The most tokens of a chunk that is one launch; half as many in float32."""
FEW_QUERIES = 16
"""Queries of one program if prompts are few, which spreads them over more programs. One prompt of 64 tokens: 11.3 to
5.8 us, four 12.2 to 8.2; but 32 of them 28 to 51."""


@triton.jit
def load_past(keys, values, known, D: tl.constexpr, BLOCK_D: tl.constexpr):
    if D == BLOCK_D:
        return tl.load(keys), tl.load(values)
    return tl.load(keys, mask=known, other=0.0), tl.load(values, mask=known, other=0.0)


@triton.jit(do_not_specialize=["length"])  # one variant for prompts of all lengths
def _store_prompt(
    qkv, weight, cos, sin, keys, values, slots, tables, positions, valid, eps, length, table_width,
    PAGE: tl.constexpr, TOKENS: tl.constexpr, VALID: tl.constexpr, HEADS: tl.constexpr, KV_HEADS: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, NORM: tl.constexpr, ROTARY: tl.constexpr, ROTATED: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    token = tl.program_id(2) * TOKENS + tl.arange(0, TOKENS)
    stored = token < length
    at = row * length + tl.minimum(token, length - 1)
    wait_for_previous(OVERLAP)
    if VALID:
        stored = stored & (tl.load(valid + at) != 0)
    position = tl.load(positions + at)
    table = tables + tl.load(slots + row) * table_width
    cell = tl.load(table + position // PAGE, mask=stored, other=0) * PAGE + position % PAGE
    channel = tl.arange(0, BLOCK_D)[None, :]
    known = channel < D
    source = qkv + (at * (HEADS + 2 * KV_HEADS) + HEADS + head)[:, None] * D
    angle = at[:, None] * D
    inside = known & stored[:, None]
    key = norm_and_rotate_some(
        source, weight, cos + angle, sin + angle, inside, channel, eps, head, D, NORM, ROTARY, ROTATED
    )
    value = tl.load(source + KV_HEADS * D + channel, mask=inside, other=0.0)
    target = (cell * KV_HEADS + head)[:, None] * D + channel
    tl.store(keys + target, key, mask=inside)
    tl.store(values + target, value, mask=inside)


@triton.jit(do_not_specialize=["length"])
def _attend_prompt(
    qkv, weight, cos, sin, keys, values, slots, tables, lasts, out, eps, scale, length, table_width,
    PAGE: tl.constexpr, TOKENS: tl.constexpr, BLOCK: tl.constexpr, HEADS: tl.constexpr, KV_HEADS: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, NORM: tl.constexpr, ROTARY: tl.constexpr, PRECISION: tl.constexpr,
    ROTATED: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    kv_head = head // (HEADS // KV_HEADS)
    token = tl.program_id(2) * TOKENS + tl.arange(0, TOKENS)
    inside = (token < length)[:, None]
    at = row * length + tl.minimum(token, length - 1)
    channel = tl.arange(0, BLOCK_D)[None, :]
    known = channel < D
    wait_for_previous(OVERLAP)
    position = tl.load(lasts + at)  # of the last key that the query attends to
    table = tables + tl.load(slots + row) * table_width
    source = qkv + (at * (HEADS + 2 * KV_HEADS) + head)[:, None] * D
    angle = at[:, None] * D
    query = norm_and_rotate_some(
        source, weight, cos + angle, sin + angle, known & inside, channel, eps, head, D, NORM, ROTARY, ROTATED
    )
    query = (query.to(tl.float32) * scale).to(query.dtype)
    highest = tl.full((TOKENS,), float("-inf"), tl.float32)
    total = tl.zeros((TOKENS,), tl.float32)
    sums = tl.zeros((TOKENS, BLOCK_D), tl.float32)
    last = tl.max(position, axis=0)
    whole = (tl.min(position, axis=0) + 1) // BLOCK * BLOCK  # before it, every query attends to every key
    for start in range(0, whole, BLOCK):
        where = start + tl.arange(0, BLOCK)
        cells = tl.load(table + where // PAGE) * PAGE + where % PAGE
        past = (cells * KV_HEADS + kv_head)[:, None] * D + channel
        past_keys, past_values = load_past(keys + past, values + past, known, D, BLOCK_D)
        scores = tl.dot(query, past_keys.T, input_precision=PRECISION)
        highest, total, sums = attend_scores(scores, past_values, highest, total, sums, PRECISION)
    for start in range(whole, last + 1, BLOCK):
        where = start + tl.arange(0, BLOCK)
        held = where <= last
        cells = tl.load(table + where // PAGE, mask=held, other=0) * PAGE + where % PAGE
        past = (cells * KV_HEADS + kv_head)[:, None] * D + channel
        mask = held[:, None] & known
        past_keys = tl.load(keys + past, mask=mask, other=0.0)
        past_values = tl.load(values + past, mask=mask, other=0.0)
        visible = where[None, :] <= position[:, None]
        highest, total, sums = attend_block(query, past_keys, past_values, visible, highest, total, sums, PRECISION)
    result = (sums / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + (at * HEADS + head)[:, None] * D + channel, result, mask=known & inside)


@triton.jit(do_not_specialize=["length"])
def _short_prompt(
    qkv, q_weight, k_weight, cos, sin, keys, values, slots, tables, positions, lasts, valid, out, eps, scale, length,
    table_width,
    PAGE: tl.constexpr, TOKENS: tl.constexpr, QUERIES: tl.constexpr, BLOCK: tl.constexpr, VALID: tl.constexpr,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, NORM: tl.constexpr,
    ROTARY: tl.constexpr, PRECISION: tl.constexpr, ROTATED: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    group: tl.constexpr = HEADS // KV_HEADS
    kv_head = head // group
    token, asking = tl.arange(0, TOKENS), tl.program_id(2) * QUERIES + tl.arange(0, QUERIES)
    stored = token < length
    at, asking_at = row * length + tl.minimum(token, length - 1), row * length + tl.minimum(asking, length - 1)
    channel = tl.arange(0, BLOCK_D)[None, :]
    known = channel < D
    inside, asking_inside = known & stored[:, None], known & (asking < length)[:, None]
    wait_for_previous(OVERLAP)
    if VALID:
        stored = stored & (tl.load(valid + at) != 0)
    position, last = tl.load(positions + at), tl.load(lasts + asking_at)
    table = tables + tl.load(slots + row) * table_width
    width: tl.constexpr = (HEADS + 2 * KV_HEADS) * D
    angle = asking_at[:, None] * D
    query = norm_and_rotate_some(
        qkv + asking_at[:, None] * width + head * D, q_weight, cos + angle, sin + angle, asking_inside, channel, eps,
        head, D, NORM, ROTARY, ROTATED,
    )  # fmt: skip
    query = (query.to(tl.float32) * scale).to(query.dtype)
    source, angle = qkv + at[:, None] * width + (HEADS + kv_head) * D, at[:, None] * D
    key = norm_and_rotate_some(
        source, k_weight, cos + angle, sin + angle, inside, channel, eps, kv_head, D, NORM, ROTARY, ROTATED
    )
    value = tl.load(source + KV_HEADS * D + channel, mask=inside, other=0.0)
    if (head % group == 0) & (tl.program_id(2) == 0):
        cell = tl.load(table + position // PAGE, mask=stored, other=0) * PAGE + position % PAGE
        target = (cell * KV_HEADS + kv_head)[:, None] * D + channel
        tl.store(keys + target, key, mask=known & stored[:, None])
        tl.store(values + target, value, mask=known & stored[:, None])
    highest = tl.full((QUERIES,), float("-inf"), tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    sums = tl.zeros((QUERIES, BLOCK_D), tl.float32)
    # A token attends to itself even if it is padding: a softmax over nothing would not be a number.
    visible = (stored[None, :] & (position[None, :] <= last[:, None])) | (token[None, :] == asking[:, None])
    highest, total, sums = attend_block(query, key, value, visible, highest, total, sums, PRECISION)
    # Pages hold everything before the first token that is not padding.
    before = tl.minimum(tl.min(tl.where(stored, position, 1 << 30), axis=0), tl.max(position, axis=0))
    for start in range(0, before, BLOCK):
        where = start + tl.arange(0, BLOCK)
        held = where < before
        cells = tl.load(table + where // PAGE, mask=held, other=0) * PAGE + where % PAGE
        past = (cells * KV_HEADS + kv_head)[:, None] * D + channel
        mask = held[:, None] & known
        past_keys = tl.load(keys + past, mask=mask, other=0.0)
        past_values = tl.load(values + past, mask=mask, other=0.0)
        highest, total, sums = attend_block(
            query, past_keys, past_values, held[None, :], highest, total, sums, PRECISION
        )
    result = (sums / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + (asking_at * HEADS + head)[:, None] * D + channel, result, mask=asking_inside)


def prompt(
    heads: ProjectedHeads,
    keys: Tensor,
    values: Tensor,
    slots: Tensor,
    tables: Tensor,
    positions: Tensor,
    valid: Tensor | None,
    last: Tensor | None = None,
) -> Tensor:
    """Attends over one layer's pages `[pages, page_size, kv_heads, D]`; token j of row i is at `positions[i, j]`.

    A token attends to all positions up to `last[i, j]`; by default that is its own.
    """
    qkv, positions = heads.qkv.contiguous(), positions.contiguous()  # [B, T, ..]
    batch, length, _ = qkv.shape
    q_weight, k_weight = norm_weights(heads)
    angles = rotary_tables(heads)
    sizes = constants(heads)
    precision = sizes.pop("PRECISION")
    lasts = positions if last is None else last.contiguous()
    padding = qkv if valid is None else valid.contiguous().view(torch.uint8)
    eps, scale, width = norm_eps(heads), heads.head_dim**-0.5, tables.stride(0)
    out = qkv.new_empty(batch, length, heads.heads * heads.head_dim)
    common = {"PAGE": keys.shape[1], "num_warps": 4, **sizes, **options()}
    common["ROTATED"] = -1 if heads.rotated is None else heads.rotated
    if length <= MAX_SHORT and (qkv.dtype != torch.float32 or length <= MAX_SHORT // 2):
        tokens = power_of_two(length, 16)
        is_few = batch * heads.heads * tokens // FEW_QUERIES <= 2 * MULTIPROCESSORS
        queries = FEW_QUERIES if is_few else tokens
        common["num_warps"] = 8 if is_few and tokens > 2 * FEW_QUERIES else 4
        _short_prompt[(batch, heads.heads, tokens // queries)](
            qkv, q_weight, k_weight, *angles, keys, values, slots, tables, positions, lasts, padding, out, eps, scale,
            length, width,
            TOKENS=tokens, QUERIES=queries, BLOCK=BLOCK, VALID=valid is not None, PRECISION=precision, **common,
        )  # fmt: skip
        return out
    common["TOKENS"] = tokens = tile_tokens(batch * heads.heads, length, qkv.dtype)
    chunks = blocks(length, tokens)
    _store_prompt[(batch, heads.kv_heads, chunks)](
        qkv, k_weight, *angles, keys, values, slots, tables, positions, padding, eps, length, width,
        VALID=valid is not None, **common,
    )  # fmt: skip
    _attend_prompt[(batch, heads.heads, chunks)](
        qkv, q_weight, *angles, keys, values, slots, tables, lasts, out, eps, scale, length, width,
        BLOCK=BLOCK, PRECISION=precision, **common,
    )  # fmt: skip
    return out


def tile_tokens(heads: int, length: int, dtype: torch.dtype) -> int:
    """Returns the queries of one program: 64, which the fastest tensor core instructions need, if there are enough."""
    most = 64 if dtype != torch.float32 and heads * blocks(length, 64) >= MULTIPROCESSORS else 32
    return min(most, power_of_two(length, 16))
