"""Attention of a few tokens that all see each other, from the raw projection on: norms, rotary positions, the look.

One program serves one query head of one row. Its keys and values are those of a few tokens, so it prepares them itself
though the other heads of its group do the same: that is cheaper than a launch that prepares them for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.attention import constants, gains, shape, turns
from rhapsode.nn.kernels.gpu.heads import prepared
from rhapsode.nn.kernels.gpu.launch import after_predecessor, options, power_of_two

if TYPE_CHECKING:
    from rhapsode.nn.heads import Heads

MOST_TOKENS = 64


@triton.jit
def _local(
    raw,
    q_gain,
    k_gain,
    cos,
    sin,
    out,
    q_eps,
    k_eps,
    scale,
    T: tl.constexpr,
    BLOCK_T: tl.constexpr,
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
    token = tl.arange(0, BLOCK_T)
    own = tl.minimum(token, T - 1)[:, None]  # tokens past the last repeat it; nobody sees them
    channel = tl.arange(0, BLOCK_D)[None, :]
    inside = (token < T)[:, None] & (channel < D)
    after_predecessor(OVERLAP)
    at = raw + (row * T + own) * ((HEADS + 2 * KV_HEADS) * D)
    cos += own * D
    sin += own * D
    query = prepared(at + head * D, q_gain, cos, sin, inside, channel, q_eps, D, NORM, TURN)
    key = prepared(at + (HEADS + kv_head) * D, k_gain, cos, sin, inside, channel, k_eps, D, NORM, TURN)
    value = tl.load(at + (HEADS + KV_HEADS + kv_head) * D + channel, mask=inside, other=0.0)
    query = (query.to(tl.float32) * scale).to(query.dtype)
    scores = tl.dot(query, key.T, input_precision=PRECISION)
    scores = tl.where((token < T)[None, :], scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    weights = weights / tl.sum(weights, axis=1)[:, None]
    seen = tl.dot(weights.to(value.dtype), value, input_precision=PRECISION)
    where = out + ((row * T + own) * HEADS + head) * D + channel
    tl.store(where, seen.to(out.dtype.element_ty), mask=inside)


def local(heads: Heads) -> Tensor:
    """`[B, T, heads * D]`."""
    batch, length, _ = heads.raw.shape
    out = heads.raw.new_empty(batch, length, heads.heads * heads.head_dim)
    _local[(batch, heads.heads)](
        heads.raw, *gains(heads), *turns(heads), out, *constants(heads),
        T=length,
        BLOCK_T=power_of_two(length, 16),
        num_warps=4,
        **shape(heads),
        **options(),
    )  # fmt: skip
    return out
