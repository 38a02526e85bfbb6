"""Sampling, from logits to an id: one program per row, which keeps the row's scores in registers throughout.

Top-k and top-p need no sort. Floats are mapped to integers of the same order, and the threshold is found bit by bit
from the top: the largest value with at least k scores at or above it, or with no more than 1 - p of the probability
below it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import options, power_of_two, wait_for_previous
from rhapsode.nn.kernels.gpu.noise import unit_interval
from rhapsode.nn.kernels.sampling import NoiseCounters, Rules, Settings


@triton.jit
def _ordered(scores):
    """Maps floats to unsigned integers of the same order."""
    bits = scores.to(tl.int32, bitcast=True)
    flipped = tl.where(bits < 0, ~bits, bits ^ -(2**31))
    return flipped.to(tl.uint32, bitcast=True)


@triton.jit
def _kth_largest(keys, k, BITS: tl.constexpr):
    """Returns the largest value that at least `k` of `keys [BLOCK]` reach: the upper `BITS`, two at a time."""
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
    """Returns the largest value below which `keys [BLOCK]` hold no more than `limit` of the `masses`."""
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
    """Returns standard Gumbel noise, a function of (seed, frame, codebook, id): that of `nn.sampling.Gumbel`."""
    zero = tl.zeros_like(ids)
    counter = (zero + (step & 0xFFFFFFFF).to(tl.uint32).to(tl.int32, bitcast=True), zero + book)
    word, _, _, _ = tl.philox(seed, ids, counter[0], counter[1], zero)
    return -tl.log(-tl.log(unit_interval(word)))


@triton.jit(do_not_specialize=["book", "least_steps"])
def _draw(
    logits, out, temperatures, top_ks, top_ps, seeds, steps, book,
    slots, history, penalties, banned, late, least_steps, width,
    BLOCK: tl.constexpr, BITS: tl.constexpr, RULES: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    ids = tl.arange(0, BLOCK)
    inside = ids < width
    if RULES:
        never = tl.load(banned + ids, mask=inside, other=0) != 0
        not_yet = tl.load(late + ids, mask=inside, other=0) != 0
    wait_for_previous(OVERLAP)
    step = tl.load(steps + row)
    noise = _gumbel(tl.load(seeds + row), step, book, ids)
    temperature = tl.load(temperatures + row)
    k = tl.load(top_ks + row)
    p = tl.load(top_ps + row)
    scores = tl.load(logits + row * width + ids, mask=inside, other=float("-inf")).to(tl.float32)
    if RULES:
        slot = tl.load(slots + row)
        sampled = tl.load(history + slot * width + ids, mask=inside, other=0) != 0
        penalty = tl.load(penalties + row)
        scores = tl.where(sampled, tl.where(scores < 0, scores * penalty, scores / penalty), scores)
        scores = tl.where(never | (not_yet & (step < least_steps)), float("-inf"), scores)

    keys = tl.where(inside, _ordered(scores), 0)
    keep = scores > float("-inf")
    if (k > 0) & (k < width):
        keep = keep & (keys >= _kth_largest(keys, k, BITS))  # ids that tie with the k-th are kept
    if (p < 1.0) & (temperature > 0.0):
        best = tl.max(scores, axis=0)
        masses = tl.where(keep, tl.exp((scores - best) / temperature), 0.0)
        limit = (1.0 - p) * tl.sum(masses, axis=0)
        edge = _edge_of_tail(keys, masses, limit)
        # Of ids that tie at the edge the first ones are dropped, as many as fit the tail.
        tied = keep & (keys == edge)
        before = tl.sum(tl.where(keys < edge, masses, 0.0), axis=0)
        upto = before + tl.cumsum(tied.to(tl.int32), axis=0).to(tl.float32) * masses
        last = tl.max(tl.where(scores == best, ids, -1), axis=0)  # the most likely id is always kept
        keep = keep & ((keys > edge) | (tied & (upto > limit)) | (ids == last))
    noisy = tl.where(keep, scores + tl.where(temperature > 0.0, noise * temperature, 0.0), float("-inf"))
    tl.store(out + row, tl.argmax(noisy, axis=0).to(tl.int64))


def draw(logits: Tensor, settings: Settings, counters: NoiseCounters, rules: Rules | None) -> Tensor:
    """Samples one id for each row of `logits [B, V]`."""
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
        BITS=16 if logits.dtype == torch.bfloat16 and rules is None else 32,  # a penalty makes them float32
        RULES=rules is not None,
        num_warps=min(8, max(1, block // 512)),
        **options(batch),
    )  # fmt: skip
    return out
