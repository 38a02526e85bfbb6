"""Functions that all attention kernels share: norm and rotary embedding of a token's heads, and the online softmax."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import power_of_two
from rhapsode.nn.kernels.gpu.norm import rounded_times
from rhapsode.nn.kernels.heads import ProjectedHeads


@triton.jit
def load_turn(weight, cos, sin, channel, D: tl.constexpr, NORM: tl.constexpr, ROTARY: tl.constexpr):
    """Loads what `turned` needs beside the heads: norm weights, those of the partner channels, cosines and sines."""
    known, partner = channel < D, (channel + D // 2) % D
    gains = tl.load(weight + channel, mask=known, other=0.0) if NORM else 0.0
    partner_gains = tl.load(weight + partner, mask=known, other=0.0) if NORM and ROTARY else 0.0
    straight = tl.load(cos + channel, mask=known, other=0.0) if ROTARY else 0.0
    across = tl.load(sin + channel, mask=known, other=0.0) if ROTARY else 0.0
    return gains, partner_gains, straight, across


@triton.jit
def load_heads(source, inside, channel, D: tl.constexpr, ROTARY: tl.constexpr):
    """Loads heads `[N, BLOCK_D]`, whose first channels `source [N, 1]` points at, and their partner channels.

    The rotary embedding combines a channel with its partner, half a head away. Loading it again is cheaper than a
    shuffle.
    """
    x = tl.load(source + channel, mask=inside, other=0.0)
    y = tl.load(source + (channel + D // 2) % D, mask=inside, other=0.0) if ROTARY else x
    return x, y


@triton.jit
def turned(heads, turn, eps, D: tl.constexpr, NORM: tl.constexpr, ROTARY: tl.constexpr):
    """Returns `heads`, as `load_heads` gives them, normed and rotated: `[N, BLOCK_D]`."""
    x, y = heads
    gains, partner_gains, straight, across = turn
    if NORM:
        wide = x.to(tl.float32)
        scale = tl.rsqrt(tl.sum(wide * wide, axis=1) / D + eps)[:, None]
        x = rounded_times(wide * scale, gains)
        if ROTARY:
            y = rounded_times(y.to(tl.float32) * scale, partner_gains)
    if ROTARY:
        kept = rounded_times(x.to(tl.float32), straight)
        x = (kept.to(tl.float32) + y.to(tl.float32) * across.to(tl.float32)).to(x.dtype)
    return x


@triton.jit
def norm_and_rotate(
    source, weight, cos, sin, inside, channel, eps, D: tl.constexpr, NORM: tl.constexpr, ROTARY: tl.constexpr
):
    """Loads heads, norm weights and rotary angles; returns the heads normed and rotated."""
    heads = load_heads(source, inside, channel, D, ROTARY)
    return turned(heads, load_turn(weight, cos, sin, channel, D, NORM, ROTARY), eps, D, NORM, ROTARY)


@triton.jit
def norm_and_rotate_some(
    source, weight, cos, sin, inside, channel, eps, head,
    D: tl.constexpr, NORM: tl.constexpr, ROTARY: tl.constexpr, ROTATED: tl.constexpr,
):  # fmt: skip
    """Does the same for one head. Heads from `ROTATED` on are not rotated; if it is negative, all are."""
    if ROTATED < 0:  # noqa: SIM114 (decided at compile time; the second condition is not)
        x = norm_and_rotate(source, weight, cos, sin, inside, channel, eps, D, NORM, ROTARY)
    elif head < ROTATED:
        x = norm_and_rotate(source, weight, cos, sin, inside, channel, eps, D, NORM, ROTARY)
    else:
        x = norm_and_rotate(source, weight, cos, sin, inside, channel, eps, D, NORM, False)
    return x


@triton.jit
def attend_block(query, keys, values, visible, highest, total, sums, PRECISION: tl.constexpr):
    """Adds one block of the past, `keys` and `values [BLOCK, D]`, to the online softmax of `query [N, D]`.

    `visible [N or 1, BLOCK]` says which keys each query attends to. The state is the highest score, the sum of the
    exponentials and the weighted sum of the values.
    """
    scores = tl.dot(query, keys.T, input_precision=PRECISION)
    scores = tl.where(visible, scores, float("-inf"))
    return attend_scores(scores, values, highest, total, sums, PRECISION)


@triton.jit
def attend_scores(scores, values, highest, total, sums, PRECISION: tl.constexpr):
    """Adds one block of the past to the online softmax, from its `scores [N, BLOCK]` on."""
    higher = tl.maximum(highest, tl.max(scores, axis=1))
    weights = tl.exp(scores - higher[:, None])
    fade = tl.exp(highest - higher)
    total = total * fade + tl.sum(weights, axis=1)
    sums = tl.dot(weights.to(values.dtype), values, sums * fade[:, None], input_precision=PRECISION)
    return higher, total, sums


# --- launch arguments ---


def norm_weights(heads: ProjectedHeads) -> tuple[Tensor, Tensor]:
    """Returns the weights of the query norm and the key norm, or any tensor where there is no norm."""
    return (heads.qkv, heads.qkv) if heads.norm is None else (heads.norm.query, heads.norm.key)


def rotary_tables(heads: ProjectedHeads) -> tuple[Tensor, Tensor]:
    """Returns contiguous cosines and sines `[B or 1, T, 1, D]`, or any tensor where there are none."""
    if heads.rotary is None:
        return heads.qkv, heads.qkv
    return heads.rotary.cos.contiguous(), heads.rotary.sin.contiguous()


def norm_eps(heads: ProjectedHeads) -> float:
    return 0.0 if heads.norm is None else heads.norm.eps


def constants(heads: ProjectedHeads) -> dict[str, object]:
    return {
        "HEADS": heads.heads,
        "KV_HEADS": heads.kv_heads,
        "D": heads.head_dim,
        "BLOCK_D": power_of_two(heads.head_dim, 16),
        "NORM": heads.norm is not None,
        "ROTARY": heads.rotary is not None,
        "PRECISION": "ieee" if heads.qkv.dtype == torch.float32 else "tf32",
    }
