"""Bidirectional attention of a few tokens, from the qkv projection on: norm, rotary embedding and softmax.

One program serves some query heads of one row, which share keys and values. It prepares these itself, although other
programs of the group may do the same: that is cheaper than another launch. With few rows, a program serves one head, so
that more programs run.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.heads import constants, norm_and_rotate, norm_eps, norm_weights, rotary_tables
from rhapsode.nn.kernels.gpu.launch import LIGHT_OVERLAP_ROWS, MULTIPROCESSORS, options, power_of_two, wait_for_previous
from rhapsode.nn.kernels.heads import ProjectedHeads

MAX_TOKENS = 64
MAX_QUERIES = 128
"""The most queries of one program: the tokens of all its query heads."""


@triton.jit
def _local(
    qkv, q_weight, k_weight, cos, sin, out, eps, scale,
    T: tl.constexpr, BLOCK_T: tl.constexpr, SHARED: tl.constexpr,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr,
    BLOCK_D: tl.constexpr, NORM: tl.constexpr, ROTARY: tl.constexpr, PRECISION: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    first_head = tl.program_id(1) * SHARED
    kv_head = first_head // (HEADS // KV_HEADS)
    each = tl.arange(0, SHARED * BLOCK_T)  # tokens of the first head, of the second ...
    head, query_token = first_head + each // BLOCK_T, each % BLOCK_T
    token = tl.arange(0, BLOCK_T)
    known_query = tl.minimum(query_token, T - 1)[:, None]  # tokens past the last repeat it, and are masked
    known_token = tl.minimum(token, T - 1)[:, None]
    channel = tl.arange(0, BLOCK_D)[None, :]
    asking = (query_token < T)[:, None] & (channel < D)
    inside = (token < T)[:, None] & (channel < D)
    wait_for_previous(OVERLAP)
    width: tl.constexpr = (HEADS + 2 * KV_HEADS) * D
    source = qkv + (row * T + known_query) * width + head[:, None] * D
    at = qkv + (row * T + known_token) * width + (HEADS + kv_head) * D
    turn, key_turn = known_query * D, known_token * D
    query = norm_and_rotate(source, q_weight, cos + turn, sin + turn, asking, channel, eps, D, NORM, ROTARY)
    key = norm_and_rotate(at, k_weight, cos + key_turn, sin + key_turn, inside, channel, eps, D, NORM, ROTARY)
    value = tl.load(at + KV_HEADS * D + channel, mask=inside, other=0.0)
    query = (query.to(tl.float32) * scale).to(query.dtype)
    scores = tl.dot(query, key.T, input_precision=PRECISION)
    scores = tl.where((token < T)[None, :], scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    weights = weights / tl.sum(weights, axis=1)[:, None]
    attended = tl.dot(weights.to(value.dtype), value, input_precision=PRECISION)
    where = out + ((row * T + known_query) * HEADS + head[:, None]) * D + channel
    tl.store(where, attended.to(out.dtype.element_ty), mask=asking)


def local(heads: ProjectedHeads) -> Tensor:
    """Returns the attention of every token to all tokens of its row, `[B, T, heads * D]`."""
    batch, length, _ = heads.qkv.shape
    out = heads.qkv.new_empty(batch, length, heads.heads * heads.head_dim)
    tokens = power_of_two(length, 16)
    shared = shared_heads(batch, heads, tokens)
    _local[(batch, heads.heads // shared)](
        heads.qkv, *norm_weights(heads), *rotary_tables(heads), out, norm_eps(heads), heads.head_dim**-0.5,
        T=length,
        BLOCK_T=tokens,
        SHARED=shared,
        num_warps=4,
        **constants(heads),
        **options(batch * length, LIGHT_OVERLAP_ROWS),
    )  # fmt: skip
    return out


def shared_heads(batch: int, heads: ProjectedHeads, tokens: int) -> int:
    """Returns the query heads of one program: as many as leave two programs to every multiprocessor."""
    group, shared = heads.heads // heads.kv_heads, 1
    while (
        group % (2 * shared) == 0
        and 2 * shared * tokens <= MAX_QUERIES
        and batch * heads.heads >= 2 * shared * 2 * MULTIPROCESSORS
    ):
        shared *= 2
    return shared
