"""Windowed attention of a codec's transformer: rotary embedding, attention and the ring's update in one launch."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import options, power_of_two, wait_for_previous


@triton.jit
def _rotated(x, at, partner, cos, sin, ok):
    """Loads heads at `at` and rotates them; `sin` is negated for the first half of the channels."""
    own = tl.load(x + at, mask=ok, other=0.0).to(tl.float32)
    other = tl.load(x + partner, mask=ok, other=0.0).to(tl.float32)
    return own * cos + other * sin


@triton.jit
def _to_bfloat16(x):
    """Rounds float32 to the nearest bfloat16, ties to even. A cast would truncate in Triton's interpreter."""
    bits = x.to(tl.int32, bitcast=True)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & -65536
    return rounded.to(tl.float32, bitcast=True)


@triton.jit(do_not_specialize=["length", "layer"])
def _ring_attention(
    qkv, out, ring, position, slots, inv_freq, length, layer, scale,
    LAYERS: tl.constexpr, HEADS: tl.constexpr, DIM: tl.constexpr, WINDOW: tl.constexpr,
    ROUNDED: tl.constexpr, PRECISION: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_W: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    b, head = tl.program_id(0), tl.program_id(1)
    wait_for_previous(OVERLAP)
    slot = tl.load(slots + b)
    first = tl.load(position + slot)
    t, d, w = tl.arange(0, BLOCK_T), tl.arange(0, DIM), tl.arange(0, BLOCK_W)
    new = t < length
    ok = new[:, None] & (d < DIM)[None, :]
    angle = (first + t).to(tl.float32)[:, None] * tl.load(inv_freq + d % (DIM // 2))[None, :]
    cos, sin = tl.cos(angle), tl.sin(angle)
    if ROUNDED:
        cos, sin = _to_bfloat16(cos), _to_bfloat16(sin)
    sin = tl.where((d < DIM // 2)[None, :], -sin, sin)
    row = (b * length + t) * (3 * HEADS * DIM) + head * DIM
    at, partner = row[:, None] + d[None, :], row[:, None] + (d ^ (DIM // 2))[None, :]
    kind = qkv.dtype.element_ty
    query = (_rotated(qkv, at, partner, cos, sin, ok) * scale).to(kind)
    key = _rotated(qkv + HEADS * DIM, at, partner, cos, sin, ok).to(kind)
    value = tl.load(qkv + 2 * HEADS * DIM + at, mask=ok, other=0.0)

    # Place `w` of the ring holds the position `age` before the newest; a negative position is empty.
    age = (first - 1 - w) % WINDOW
    age = tl.where(age < 0, age + WINDOW, age)
    held = first - 1 - age
    filled = (w < WINDOW) & (held >= 0)
    cell: tl.constexpr = LAYERS * 2 * HEADS * DIM
    ring += slot * (WINDOW * cell) + layer * (2 * HEADS * DIM) + head * DIM
    past = w[:, None] * cell + d[None, :]
    past_key = tl.load(ring + past, mask=filled[:, None], other=0.0)
    past_value = tl.load(ring + HEADS * DIM + past, mask=filled[:, None], other=0.0)

    old = tl.dot(query, tl.trans(past_key), input_precision=PRECISION)
    now = tl.dot(query, tl.trans(key), input_precision=PRECISION)
    visible = filled[None, :] & (first + t[:, None] - held[None, :] < WINDOW)
    old = tl.where(visible, old, float("-inf"))
    now = tl.where(new[None, :] & (t[None, :] <= t[:, None]), now, float("-inf"))
    top = tl.maximum(tl.max(old, 1), tl.max(now, 1))
    old, now = tl.exp(old - top[:, None]), tl.exp(now - top[:, None])
    attended = tl.dot(old.to(kind), past_value, input_precision=PRECISION)
    attended = tl.dot(now.to(kind), value, attended, input_precision=PRECISION)
    attended = attended / (tl.sum(old, 1) + tl.sum(now, 1))[:, None]
    to = (b * length + t) * (HEADS * DIM) + head * DIM
    tl.store(out + (to[:, None] + d[None, :]), attended.to(kind), mask=ok)

    tl.debug_barrier()  # new positions replace the oldest, which every warp has read by now
    place = ((first + t) % WINDOW)[:, None] * cell + d[None, :]
    tl.store(ring + place, key, mask=ok)
    tl.store(ring + HEADS * DIM + place, value, mask=ok)


def ring_attention(
    qkv: Tensor,
    out: Tensor,
    ring: Tensor,
    position: Tensor,
    slots: Tensor,
    inv_freq: Tensor,
    layer: int,
    rounded: bool = False,
) -> None:
    """Attends with `qkv [B, T, 3 * heads * D]` to the ring and to itself, and stores its keys and values in the ring.

    The result is `out [B, T, heads * D]`. The `ring` is [S, window, layers, 2, heads, D], and T is at most `window`.
    `position [S]` counts the positions before; the caller advances it. `rounded` is that of `RopeConfig`.
    """
    batch, length, _ = qkv.shape
    _, window, layers, _, heads, dim = ring.shape
    _ring_attention[(batch, heads)](
        qkv, out, ring, position, slots, inv_freq, length, layer, dim**-0.5,
        LAYERS=layers, HEADS=heads, DIM=dim, WINDOW=window, ROUNDED=rounded, PRECISION="ieee",
        BLOCK_T=power_of_two(length, 16), BLOCK_W=power_of_two(window, 16), num_warps=4, **options(),
    )  # fmt: skip
