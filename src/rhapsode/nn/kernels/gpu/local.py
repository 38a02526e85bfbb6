"""Bidirectional attention of a few tokens, from the qkv projection on: norm, rotary embedding and softmax.

One program serves one query head of one row. It prepares the keys and values of all tokens itself, although the other
heads of its group do the same: that is cheaper than another launch.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.heads import constants, norm_and_rotate, norm_eps, norm_weights, rotary_tables
from rhapsode.nn.kernels.gpu.launch import options, power_of_two, wait_for_previous
from rhapsode.nn.kernels.heads import ProjectedHeads

MAX_TOKENS = 64


@triton.jit
def _local(
    qkv, q_weight, k_weight, cos, sin, out, eps, scale,
    T: tl.constexpr, BLOCK_T: tl.constexpr, HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr,
    BLOCK_D: tl.constexpr, NORM: tl.constexpr, ROTARY: tl.constexpr, PRECISION: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    kv_head = head // (HEADS // KV_HEADS)
    token = tl.arange(0, BLOCK_T)
    own = tl.minimum(token, T - 1)[:, None]  # tokens past the last repeat it, and are masked
    channel = tl.arange(0, BLOCK_D)[None, :]
    inside = (token < T)[:, None] & (channel < D)
    wait_for_previous(OVERLAP)
    at = qkv + (row * T + own) * ((HEADS + 2 * KV_HEADS) * D)
    cos += own * D
    sin += own * D
    query = norm_and_rotate(at + head * D, q_weight, cos, sin, inside, channel, eps, D, NORM, ROTARY)
    key = norm_and_rotate(at + (HEADS + kv_head) * D, k_weight, cos, sin, inside, channel, eps, D, NORM, ROTARY)
    value = tl.load(at + (HEADS + KV_HEADS + kv_head) * D + channel, mask=inside, other=0.0)
    query = (query.to(tl.float32) * scale).to(query.dtype)
    scores = tl.dot(query, key.T, input_precision=PRECISION)
    scores = tl.where((token < T)[None, :], scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    weights = weights / tl.sum(weights, axis=1)[:, None]
    attended = tl.dot(weights.to(value.dtype), value, input_precision=PRECISION)
    where = out + ((row * T + own) * HEADS + head) * D + channel
    tl.store(where, attended.to(out.dtype.element_ty), mask=inside)


def local(heads: ProjectedHeads) -> Tensor:
    """Returns `[B, T, heads * D]`."""
    batch, length, _ = heads.qkv.shape
    out = heads.qkv.new_empty(batch, length, heads.heads * heads.head_dim)
    _local[(batch, heads.heads)](
        heads.qkv, *norm_weights(heads), *rotary_tables(heads), out, norm_eps(heads), heads.head_dim**-0.5,
        T=length,
        BLOCK_T=power_of_two(length, 16),
        num_warps=4,
        **constants(heads),
        **options(),
    )  # fmt: skip
    return out
