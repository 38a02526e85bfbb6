"""Samples an id from the logits of each row: one program per row, which keeps the row's scores in registers throughout.

Top-k and top-p need no sort. Floats are mapped to integers of the same order, and the threshold is found bit by bit
from the top: the largest value with at least k scores at or above it, or with no more than 1 - p of the probability
below it. A row that has to draw again (`Repetition`) does so in the same launch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import options, power_of_two, wait_for_previous
from rhapsode.nn.kernels.gpu.noise import unit_interval
from rhapsode.nn.kernels.sampling import NoiseCounters, Repetition, Rules, Settings


@triton.jit
def _ordered(scores, BITS: tl.constexpr):
    """Turns floats into unsigned integers that sort the same way, and keeps the upper `BITS` bits of each.

    The upper 16 bits hold all of a bfloat16.
    """
    bits = scores.to(tl.int32, bitcast=True)
    flipped = tl.where(bits < 0, ~bits, bits ^ -(2**31))
    return flipped.to(tl.uint32, bitcast=True) >> (32 - BITS)


@triton.jit
def _kth_largest(keys, k, BITS: tl.constexpr):
    """Returns the largest value that at least `k` of `keys [BLOCK]` reach, found two bits at a time."""
    found = tl.full((), 0, tl.uint32)
    step = tl.full((), 1 << (BITS - 2), tl.uint32)
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
def _edge_of_tail(keys, masses, limit, BITS: tl.constexpr, STRICT: tl.constexpr, PAIRS: tl.constexpr):
    """Returns the largest value below which `keys [BLOCK]` hold no more than `limit` of the `masses`; with `STRICT`,
    less than that. Found bit by bit, or two bits at a time (`PAIRS`)."""
    found = tl.full((), 0, tl.uint32)
    if PAIRS:
        digit = tl.arange(0, 4).to(tl.uint32)
        step = tl.full((), 1 << (BITS - 2), tl.uint32)
        for _ in range(BITS // 2):
            tried = found + digit * step
            below = tl.sum(tl.where(keys[None, :] < tried[:, None], masses[None, :], 0.0), axis=1)
            fits = (below < limit) if STRICT else (below <= limit)
            found += tl.sum((fits & (digit > 0)).to(tl.uint32), axis=0) * step
            step = step >> 2
    else:
        step = tl.full((), 1 << (BITS - 1), tl.uint32)
        for _ in range(BITS):
            below = tl.sum(tl.where(keys < found + step, masses, 0.0), axis=0)
            found = tl.where((below < limit) if STRICT else (below <= limit), found + step, found)
            step = step >> 1
    return found


@triton.jit
def _kept_after_top_k(scores, keys, ids, temperature, k, p, width, BITS: tl.constexpr, PAIRS: tl.constexpr):
    """Returns which ids `TopP.AFTER_TOP_K` keeps."""
    keep = scores > float("-inf")
    if (k > 0) & (k < width):
        keep = keep & (keys >= _kth_largest(keys, k, BITS))  # ids that tie with the k-th are kept
    if (p < 1.0) & (temperature > 0.0):
        best = tl.max(scores, axis=0)
        masses = tl.where(keep, tl.exp((scores - best) / temperature), 0.0)
        limit = (1.0 - p) * tl.sum(masses, axis=0)
        edge = _edge_of_tail(keys, masses, limit, BITS, False, PAIRS)
        # Of ids that tie at the edge the first ones are dropped, as many as fit the tail.
        tied = keep & (keys == edge)
        before = tl.sum(tl.where(keys < edge, masses, 0.0), axis=0)
        upto = before + tl.cumsum(tied.to(tl.int32), axis=0).to(tl.float32) * masses
        last = tl.max(tl.where(scores == best, ids, -1), axis=0)  # the most likely id is always kept
        keep = keep & ((keys > edge) | (tied & (upto > limit)) | (ids == last))
    return keep


@triton.jit
def _kept_by_rank(
    scores,
    keys,
    ids,
    k,
    p,
    width,
    BITS: tl.constexpr,
    THROUGH: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Returns which ids `TopP.THROUGH` or `TopP.BELOW` keeps; of equal scores the first ids have the lower ranks."""
    best = tl.max(scores, axis=0)
    keep = scores > float("-inf")
    if p < 1.0:
        masses = tl.exp(scores - best)
        limit = (1.0 - p) * tl.sum(masses, axis=0)
        edge = _edge_of_tail(keys, masses, limit, BITS, not THROUGH, PAIRS)
        tied = keys == edge
        order = tl.cumsum(tied.to(tl.int32), axis=0)
        behind = tl.sum(tied.to(tl.int32), axis=0) - order  # ids with the same score and a higher rank
        below = tl.sum(tl.where(keys < edge, masses, 0.0), axis=0) + behind.to(tl.float32) * masses
        fits = (below + masses > limit) if THROUGH else (below >= limit)
        keep = keep & ((keys > edge) | (tied & fits))
    if (k > 0) & (k < width):
        last = _kth_largest(keys, k, BITS)
        level = keys == last
        above = tl.sum((keys > last).to(tl.int32), axis=0)
        keep = keep & ((keys > last) | (level & (above + tl.cumsum(level.to(tl.int32), axis=0) <= k)))
    first = tl.min(tl.where(scores == best, ids, width), axis=0)
    return keep | (ids == first)


@triton.jit
def _best(
    scores, seen, noise, ids, inside, temperature, k, p, least, width,
    BITS: tl.constexpr, TOP_P: tl.constexpr, ORDER: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """Returns the id of the highest sum of score and noise among those that are kept.

    The filters see the scores `seen`. `least` is min-p.
    """
    likely = inside
    if least > 0.0:
        likely = seen >= tl.max(seen, axis=0) + temperature * tl.log(least)
    if ORDER == 1:
        seen = tl.where(likely, seen, float("-inf"))
    keys = tl.where(inside, _ordered(seen, BITS), 0)
    if TOP_P == 0:
        keep = _kept_after_top_k(seen, keys, ids, temperature, k, p, width, BITS, PAIRS)
    else:
        keep = _kept_by_rank(seen, keys, ids, k, p, width, BITS, TOP_P == 1, PAIRS)
    noisy = tl.where(keep & likely, scores + tl.where(temperature > 0.0, noise * temperature, 0.0), float("-inf"))
    return tl.argmax(noisy, axis=0)


@triton.jit
def _gumbel(seed, step, book, ids):
    """Returns standard Gumbel noise, a function of (seed, frame, codebook, id): that of `nn.sampling.Gumbel`."""
    zero = tl.zeros_like(ids)
    counter = (zero + (step & 0xFFFFFFFF).to(tl.uint32).to(tl.int32, bitcast=True), zero + book)
    word, _, _, _ = tl.philox(seed, ids, counter[0], counter[1], zero)
    return -tl.log(-tl.log(unit_interval(word)))


@triton.jit(do_not_specialize=["book", "least_steps", "second_book"])
def _draw(
    logits, out, temperatures, top_ks, top_ps, min_ps, seeds, steps, book,
    slots, history, penalties, banned, late, least_steps,
    recent, recent_slots, limits, second_temperatures, second_top_ks, second_top_ps, second_min_ps, second_book,
    recent_row, recent_column, width, table, embedded,
    BOOKS: tl.constexpr, BLOCK: tl.constexpr, BITS: tl.constexpr, TOP_P: tl.constexpr, ORDER: tl.constexpr,
    SECOND_ORDER: tl.constexpr, RULES: tl.constexpr,
    WINDOW: tl.constexpr, WINDOW_BLOCK: tl.constexpr, SECOND_TOP_P: tl.constexpr, RAW: tl.constexpr,
    OTHER: tl.constexpr, EMBED: tl.constexpr, EMBED_BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    request = row // BOOKS
    nth = row % BOOKS  # of the codebooks that are drawn at once
    ids = tl.arange(0, BLOCK)
    inside = ids < width
    if RULES:
        never = tl.load(banned + ids, mask=inside, other=0) != 0
        not_yet = tl.load(late + ids, mask=inside, other=0) != 0
    # Settings and noise do not depend on the kernel before: they are there when its logits are.
    step, seed = tl.load(steps + request), tl.load(seeds + request)
    temperature, top_k, top_p = tl.load(temperatures + request), tl.load(top_ks + request), tl.load(top_ps + request)
    min_p = tl.load(min_ps + request) if min_ps is not None else 0.0
    noise = _gumbel(seed, step, book + nth.to(tl.int32), ids)
    wait_for_previous(OVERLAP)
    raw = tl.load(logits + row * width + ids, mask=inside, other=float("-inf")).to(tl.float32)
    scores = raw
    allowed = raw
    if RULES:
        slot = tl.load(slots + row)
        sampled = tl.load(history + slot * width + ids, mask=inside, other=0) != 0
        penalty = tl.load(penalties + row)
        allowed = tl.where(never | (not_yet & (step < least_steps)), float("-inf"), raw)
        scores = tl.where(sampled, tl.where(allowed < 0, allowed * penalty, allowed / penalty), allowed)
    drawn = _best(
        scores, allowed if ORDER == 2 else scores, noise, ids, inside, temperature, top_k, top_p, min_p, width,
        BITS, TOP_P, ORDER, not RAW,  # Triton 3.6 fails to compile pairs where the second draw has other scores
    )  # fmt: skip
    if WINDOW > 0:
        place = tl.arange(0, WINDOW_BLOCK)
        held = recent + (tl.load(recent_slots + request) * BOOKS + nth) * recent_row + place * recent_column
        count = tl.sum((tl.load(held, mask=place < WINDOW, other=-1) == drawn).to(tl.int32), axis=0)
        limit = tl.load(limits + request)
        if (limit > 0) & (count >= limit):
            scores = raw if RAW else scores
            seen = allowed if SECOND_ORDER == 2 and not RAW else scores
            if OTHER:
                seen = tl.where(ids == drawn, float("-inf"), seen)
            drawn = _best(
                scores, seen, _gumbel(seed, step, second_book + nth.to(tl.int32), ids), ids, inside,
                tl.load(second_temperatures + request), tl.load(second_top_ks + request),
                tl.load(second_top_ps + request),
                tl.load(second_min_ps + request) if second_min_ps is not None else 0.0,
                width, BITS, SECOND_TOP_P, SECOND_ORDER, not RAW,
            )  # fmt: skip
    tl.store(out + row, drawn.to(tl.int64))
    if EMBED > 0:
        at = tl.arange(0, EMBED_BLOCK)
        found = tl.load(table + drawn.to(tl.int64) * EMBED + at, mask=at < EMBED)
        tl.store(embedded + row * EMBED + at, found, mask=at < EMBED)


def draw(
    logits: Tensor,
    settings: Settings,
    counters: NoiseCounters,
    rules: Rules | None,
    repetition: Repetition | None,
    embedding: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Samples one id for each row of `logits [B * books, V]`; rules are for one codebook.

    `embedding`: a table `[V, width]`, and the tensor `[B * books, width]` to which the rows of the ids are copied.
    """
    logits = logits.contiguous()
    batch, width = logits.shape
    out = torch.empty(batch, dtype=torch.int64, device=logits.device)
    block = power_of_two(width, 16)
    table, embedded = embedding or (out, out)
    second, window = repetition.settings if repetition else settings, repetition.recent.shape[1] if repetition else 0
    _draw[(batch,)](
        logits, out, settings.temperature, settings.top_k, settings.top_p, settings.min_p,
        counters.seeds, counters.steps, counters.book,
        *_rule_arguments(rules, out),
        *_repetition_arguments(repetition, out),
        width, table, embedded,
        BOOKS=counters.books,
        BLOCK=block,
        BITS=16 if logits.dtype == torch.bfloat16 and rules is None else 32,  # a penalty makes them float32
        TOP_P=int(settings.rule),
        ORDER=int(settings.order),
        SECOND_ORDER=int(second.order),
        RULES=rules is not None,
        WINDOW=window,
        WINDOW_BLOCK=power_of_two(max(window, 1)),
        SECOND_TOP_P=int(second.rule),
        RAW=repetition is not None and repetition.raw,
        OTHER=repetition is not None and repetition.other,
        EMBED=table.shape[1] if embedding else 0,
        EMBED_BLOCK=power_of_two(table.shape[1]) if embedding else 1,
        num_warps=min(16, max(1, block // 512)),
        **options(batch // counters.books),
    )  # fmt: skip
    return out


def _rule_arguments(rules: Rules | None, unused: Tensor) -> tuple[Tensor | int, ...]:
    if rules is None:
        return (*[unused] * 5, 0)
    flags = rules.banned.view(torch.uint8), rules.late.view(torch.uint8)
    return rules.slots, rules.history.view(torch.uint8), rules.penalty, *flags, rules.least_steps


def _repetition_arguments(repetition: Repetition | None, unused: Tensor) -> tuple[Tensor | int | None, ...]:
    if repetition is None:
        return (*[unused] * 7, 0, 0, 0)
    second, noise = repetition.settings, repetition.noise
    assert isinstance(noise, NoiseCounters)
    return (
        repetition.recent, repetition.slots, repetition.limit,
        second.temperature, second.top_k, second.top_p, second.min_p, noise.book,
        *repetition.recent.stride(),
    )  # fmt: skip
