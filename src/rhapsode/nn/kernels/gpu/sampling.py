"""A draw, from logits to an id: one program a row, which keeps the row's scores in its registers throughout.

What top-k and top-p leave is found without sorting. Floats are mapped to integers of the same order, and the threshold
is built bit by bit from the top: the largest value that still has k scores at or above it, or no more than 1 - p of
the probability below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import after_predecessor, options, power_of_two

if TYPE_CHECKING:
    from rhapsode.nn.sampling import Counters, Rules, Settings


@triton.jit
def _ordered(scores):
    """Unsigned integers in the order of the floats."""
    bits = scores.to(tl.int32, bitcast=True)
    turned = tl.where(bits < 0, ~bits, bits ^ -(2**31))
    return turned.to(tl.uint32, bitcast=True)


@triton.jit
def _kth_largest(keys, k, BITS: tl.constexpr):
    """The largest value that at least `k` of `keys [BLOCK]` reach, two bits at a time; the lower ones are all alike."""
    found = tl.full((), 0, tl.uint32)
    step = tl.full((), 1 << 30, tl.uint32)
    for _ in range(BITS // 2):
        one, two, three = found + step, found + 2 * step, found + 3 * step
        # Three counts in one sum: fewer than 2^20 ids each.
        counts = (keys >= one).to(tl.int64) + ((keys >= two).to(tl.int64) << 20) + ((keys >= three).to(tl.int64) << 40)
        counted = tl.sum(counts, axis=0)
        reached = ((counted & 0xFFFFF) >= k).to(tl.uint32)
        reached += (((counted >> 20) & 0xFFFFF) >= k).to(tl.uint32)
        reached += ((counted >> 40) >= k).to(tl.uint32)
        found += reached * step
        step = step >> 2
    return found


@triton.jit
def _edge_of_tail(keys, masses, limit):
    """The largest value below which `keys [BLOCK]` hold no more than `limit` of the `masses`."""
    found = tl.full((), 0, tl.uint32)
    step = tl.full((), 1 << 31, tl.uint32)
    for _ in range(32):
        tried = found + step
        below = tl.sum(tl.where(keys < tried, masses, 0.0), axis=0)
        found = tl.where(below <= limit, tried, found)
        step = step >> 1
    return found


@triton.jit
def _gumbel(seed, step, book, ids):
    """Standard Gumbel noise, a function of (seed, frame, codebook, id) alone: `nn.sampling.Gumbel`'s numbers."""
    zero = tl.zeros_like(ids)
    counter = (zero + (step & 0xFFFFFFFF).to(tl.uint32).to(tl.int32, bitcast=True), zero + book)
    word, _, _, _ = tl.philox(seed, ids, counter[0], counter[1], zero)
    uniform = ((word >> 8).to(tl.int32).to(tl.float32) + 0.5) * (1.0 / (1 << 24))
    uniform = tl.minimum(uniform, 1.0 - 1.0 / (1 << 24))
    return -tl.log(-tl.log(uniform))


@triton.jit(do_not_specialize=["book", "least_steps"])
def _draw(
    logits,
    out,
    temperatures,
    top_ks,
    top_ps,
    seeds,
    steps,
    book,
    slots,
    history,
    penalties,
    banned,
    late,
    least_steps,
    width,
    BLOCK: tl.constexpr,
    BITS: tl.constexpr,
    RULES: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    ids = tl.arange(0, BLOCK)
    inside = ids < width
    if RULES:
        never = tl.load(banned + ids, mask=inside, other=0) != 0
        not_yet = tl.load(late + ids, mask=inside, other=0) != 0
    after_predecessor(OVERLAP)
    step = tl.load(steps + row)
    noise = _gumbel(tl.load(seeds + row), step, book, ids)
    heat = tl.load(temperatures + row)
    k = tl.load(top_ks + row)
    p = tl.load(top_ps + row)
    scores = tl.load(logits + row * width + ids, mask=inside, other=float("-inf")).to(tl.float32)
    if RULES:
        slot = tl.load(slots + row)
        said = tl.load(history + slot * width + ids, mask=inside, other=0) != 0
        penalty = tl.load(penalties + row)
        scores = tl.where(said, tl.where(scores < 0, scores * penalty, scores / penalty), scores)
        scores = tl.where(never | (not_yet & (step < least_steps)), float("-inf"), scores)

    keys = tl.where(inside, _ordered(scores), 0)
    keep = scores > float("-inf")
    if (k > 0) & (k < width):
        keep = keep & (keys >= _kth_largest(keys, k, BITS))  # ids that tie with the k-th stay
    if (p < 1.0) & (heat > 0.0):
        best = tl.max(scores, axis=0)
        masses = tl.where(keep, tl.exp((scores - best) / heat), 0.0)
        limit = (1.0 - p) * tl.sum(masses, axis=0)
        edge = _edge_of_tail(keys, masses, limit)
        # Of ids that tie at the edge the first ones go, as many as the tail has room for.
        tied = keep & (keys == edge)
        before = tl.sum(tl.where(keys < edge, masses, 0.0), axis=0)
        upto = before + tl.cumsum(tied.to(tl.int32), axis=0).to(tl.float32) * masses
        last = tl.max(tl.where(scores == best, ids, -1), axis=0)  # the most likely id always stays
        keep = keep & ((keys > edge) | (tied & (upto > limit)) | (ids == last))
    raced = tl.where(keep, scores + tl.where(heat > 0.0, noise * heat, 0.0), float("-inf"))
    tl.store(out + row, tl.argmax(raced, axis=0).to(tl.int64))


def draw(logits: Tensor, settings: Settings, counters: Counters, rules: Rules | None) -> Tensor:
    """One id for each row of `logits [B, V]`."""
    logits = logits.contiguous()
    batch, width = logits.shape
    out = torch.empty(batch, dtype=torch.int64, device=logits.device)
    block = power_of_two(width, 16)
    _draw[(batch,)](
        logits, out, settings.temperature, settings.top_k, settings.top_p,
        counters.seeds, counters.steps, counters.book,
        *(
            (rules.slots, rules.history.view(torch.uint8), rules.penalty, rules.banned.view(torch.uint8),
             rules.late.view(torch.uint8), rules.least_steps)
            if rules
            else (out, out, out, out, out, 0)
        ),
        width,
        BLOCK=block,
        BITS=16 if logits.dtype == torch.bfloat16 and rules is None else 32,  # a penalty makes float32 of them
        RULES=rules is not None,
        num_warps=min(8, max(1, block // 512)),
        **options(batch),
    )  # fmt: skip
    return out
