"""Attention of prompts: chunks of many tokens a row, from the raw projection on.

Two launches: one norms, turns and stores the keys, the other does the same to the queries and looks back at what is in
the pages by then, this chunk and those before it. Tokens that only fill up a row are not stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.attention import constants, gains, shape, turns
from rhapsode.nn.kernels.gpu.heads import look, prepared
from rhapsode.nn.kernels.gpu.launch import after_predecessor, options, power_of_two

if TYPE_CHECKING:
    from rhapsode.nn.heads import Heads

BLOCK = 64
"""Positions looked at in one go."""


@triton.jit
def _store(
    raw,
    gain,
    cos,
    sin,
    keys,
    values,
    slots,
    tables,
    positions,
    valid,
    eps,
    length,
    table_width,
    PAGE: tl.constexpr,
    TOKENS: tl.constexpr,
    VALID: tl.constexpr,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    NORM: tl.constexpr,
    TURN: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    token = tl.program_id(2) * TOKENS + tl.arange(0, TOKENS)
    stored = token < length
    at = row * length + tl.minimum(token, length - 1)
    after_predecessor(OVERLAP)
    if VALID:
        stored = stored & (tl.load(valid + at) != 0)
    position = tl.load(positions + at)
    table = tables + tl.load(slots + row) * table_width
    cell = tl.load(table + position // PAGE, mask=stored, other=0) * PAGE + position % PAGE
    channel = tl.arange(0, BLOCK_D)[None, :]
    known = channel < D
    source = raw + (at * (HEADS + 2 * KV_HEADS) + HEADS + head)[:, None] * D
    turn = at[:, None] * D
    key = prepared(source, gain, cos + turn, sin + turn, known & stored[:, None], channel, eps, D, NORM, TURN)
    value = tl.load(source + KV_HEADS * D + channel, mask=known & stored[:, None], other=0.0)
    target = (cell * KV_HEADS + head)[:, None] * D + channel
    tl.store(keys + target, key, mask=known & stored[:, None])
    tl.store(values + target, value, mask=known & stored[:, None])


@triton.jit
def _look_back(
    raw,
    gain,
    cos,
    sin,
    keys,
    values,
    slots,
    tables,
    positions,
    out,
    eps,
    scale,
    length,
    table_width,
    PAGE: tl.constexpr,
    TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    NORM: tl.constexpr,
    TURN: tl.constexpr,
    PRECISION: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    kv_head = head // (HEADS // KV_HEADS)
    token = tl.program_id(2) * TOKENS + tl.arange(0, TOKENS)
    there = (token < length)[:, None]
    at = row * length + tl.minimum(token, length - 1)
    channel = tl.arange(0, BLOCK_D)[None, :]
    known = channel < D
    after_predecessor(OVERLAP)
    position = tl.load(positions + at)
    table = tables + tl.load(slots + row) * table_width
    source = raw + (at * (HEADS + 2 * KV_HEADS) + head)[:, None] * D
    turn = at[:, None] * D
    query = prepared(source, gain, cos + turn, sin + turn, known & there, channel, eps, D, NORM, TURN)
    query = (query.to(tl.float32) * scale).to(query.dtype)
    most = tl.full((TOKENS,), float("-inf"), tl.float32)
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
        seen = where[None, :] <= position[:, None]
        most, total, sums = look(query, past_keys, past_values, seen, most, total, sums, PRECISION)
    result = (sums / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + (at * HEADS + head)[:, None] * D + channel, result, mask=known & there)


def prompt(
    heads: Heads,
    keys: Tensor,
    values: Tensor,
    slots: Tensor,
    tables: Tensor,
    positions: Tensor,
    valid: Tensor | None,
) -> Tensor:
    """`keys` and `values [pages, page_size, kv_heads, D]` of one layer; token j of row i is at `positions[i, j]`."""
    raw, positions = heads.raw.contiguous(), positions.contiguous()  # [B, T, ..]
    batch, length, _ = raw.shape
    tokens = min(32, power_of_two(length, 16))
    q_gain, k_gain = gains(heads)
    cos, sin = turns(heads)
    q_eps, k_eps, scale = constants(heads)
    chunks = triton.cdiv(length, tokens)
    common = {"PAGE": keys.shape[1], "TOKENS": tokens, "num_warps": 4, **options()}
    sizes = shape(heads)
    precision = sizes.pop("PRECISION")
    _store[(batch, heads.kv_heads, chunks)](
        raw, k_gain, cos, sin, keys, values, slots, tables, positions,
        raw if valid is None else valid.contiguous().view(torch.uint8),
        k_eps, length, tables.stride(0), VALID=valid is not None, **sizes, **common,
    )  # fmt: skip
    out = raw.new_empty(batch, length, heads.heads * heads.head_dim)
    _look_back[(batch, heads.heads, chunks)](
        raw, q_gain, cos, sin, keys, values, slots, tables, positions, out,
        q_eps, scale, length, tables.stride(0), BLOCK=BLOCK, PRECISION=precision, **sizes, **common,
    )  # fmt: skip
    return out
