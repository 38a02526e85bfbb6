"""What all attention kernels do to a token's heads before they look back, and how they look."""

from __future__ import annotations

import triton
import triton.language as tl

from rhapsode.nn.kernels.gpu.norm import rounded_times


@triton.jit
def prepared(raw, gain, cos, sin, inside, channel, eps, D: tl.constexpr, NORM: tl.constexpr, TURN: tl.constexpr):
    """Heads `[N, BLOCK_D]` that `raw` points at the first channels of, `[N, 1]`: normed, and turned.

    A channel turns against its partner half a head away; that one is loaded again instead of being moved.
    """
    partner = (channel + D // 2) % D
    known = channel < D
    x = tl.load(raw + channel, mask=inside, other=0.0)
    if TURN:
        y = tl.load(raw + partner, mask=inside, other=0.0)
    if NORM:
        wide = x.to(tl.float32)
        scale = tl.rsqrt(tl.sum(wide * wide, axis=1) / D + eps)[:, None]
        x = rounded_times(wide * scale, tl.load(gain + channel, mask=known, other=0.0))
        if TURN:
            y = rounded_times(y.to(tl.float32) * scale, tl.load(gain + partner, mask=known, other=0.0))
    if TURN:
        straight = rounded_times(x.to(tl.float32), tl.load(cos + channel, mask=known, other=0.0))
        across = tl.load(sin + channel, mask=known, other=0.0).to(tl.float32)
        x = (straight.to(tl.float32) + y.to(tl.float32) * across).to(x.dtype)
    return x


@triton.jit
def look(query, keys, values, seen, most, total, sums, PRECISION: tl.constexpr):
    """One block of the past, `keys` and `values [BLOCK, D]`, added to a running softmax of `query [N, D]`.

    `seen [N or 1, BLOCK]`: which of it each query may look at.
    """
    scores = tl.dot(query, keys.T, input_precision=PRECISION)
    scores = tl.where(seen, scores, float("-inf"))
    higher = tl.maximum(most, tl.max(scores, axis=1))
    weights = tl.exp(scores - higher[:, None])
    fade = tl.exp(most - higher)
    total = total * fade + tl.sum(weights, axis=1)
    sums = tl.dot(weights.to(values.dtype), values, sums * fade[:, None], input_precision=PRECISION)
    return higher, total, sums
