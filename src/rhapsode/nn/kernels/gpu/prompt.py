"""Attention of prompts: chunks of many tokens per row, from the qkv projection on.

Two launches: the first norms, rotates and stores the keys; the second does the same to the queries and attends to what
the pages hold by then, this chunk and those before it. Padding tokens are not stored.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.heads import (
    attend_block,
    constants,
    norm_and_rotate,
    norm_eps,
    norm_weights,
    rotary_tables,
)
from rhapsode.nn.kernels.gpu.launch import options, power_of_two, wait_for_previous
from rhapsode.nn.kernels.heads import ProjectedHeads

BLOCK = 64
"""Positions of the past that one iteration attends to."""


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
    key = norm_and_rotate(source, weight, cos + angle, sin + angle, inside, channel, eps, D, NORM, ROTARY)
    if ROTATED >= 0:
        plain = norm_and_rotate(source, weight, cos + angle, sin + angle, inside, channel, eps, D, NORM, False)
        key = tl.where(head < ROTATED, key, plain)
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
    query = norm_and_rotate(source, weight, cos + angle, sin + angle, known & inside, channel, eps, D, NORM, ROTARY)
    if ROTATED >= 0:
        plain = norm_and_rotate(source, weight, cos + angle, sin + angle, known & inside, channel, eps, D, NORM, False)
        query = tl.where(head < ROTATED, query, plain)
    query = (query.to(tl.float32) * scale).to(query.dtype)
    highest = tl.full((TOKENS,), float("-inf"), tl.float32)
    total = tl.zeros((TOKENS,), tl.float32)
    sums = tl.zeros((TOKENS, BLOCK_D), tl.float32)
    last = tl.max(position, axis=0)
    for start in range(0, last + 1, BLOCK):
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

    It attends to all positions up to `last[i, j]`; by default that is its own.
    """
    qkv, positions = heads.qkv.contiguous(), positions.contiguous()  # [B, T, ..]
    batch, length, _ = qkv.shape
    tokens = min(32, power_of_two(length, 16))
    q_weight, k_weight = norm_weights(heads)
    angles = rotary_tables(heads)
    chunks = triton.cdiv(length, tokens)
    common = {"PAGE": keys.shape[1], "TOKENS": tokens, "num_warps": 4, **options()}
    common["ROTATED"] = -1 if heads.rotated is None else heads.rotated
    sizes = constants(heads)
    precision = sizes.pop("PRECISION")
    _store_prompt[(batch, heads.kv_heads, chunks)](
        qkv, k_weight, *angles, keys, values, slots, tables, positions,
        qkv if valid is None else valid.contiguous().view(torch.uint8),
        norm_eps(heads), length, tables.stride(0), VALID=valid is not None, **sizes, **common,
    )  # fmt: skip
    out = qkv.new_empty(batch, length, heads.heads * heads.head_dim)
    _attend_prompt[(batch, heads.heads, chunks)](
        qkv, q_weight, *angles, keys, values, slots, tables, positions if last is None else last.contiguous(), out,
        norm_eps(heads), heads.head_dim**-0.5, length, tables.stride(0),
        BLOCK=BLOCK, PRECISION=precision, **sizes, **common,
    )  # fmt: skip
    return out
