"""Sampling from logits on the device: per row, without waiting for the host, independent of the other rows.

The rules have the order and the meaning of the Hugging Face processors: repetition penalty, banned ids, temperature,
top-k, top-p, min-p. Families that filter in another order (`SamplingOrder`) or by rank (`TopP`) say so, and those that
draw again where an id repeats give a `Repetition`. A draw uses the Gumbel-max trick: every id has noise of its own from
the counter RNG, and the id with the highest sum of logit and noise is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.device.sections import section
from rhapsode.device.trace import decides
from rhapsode.nn import kernels
from rhapsode.nn.kernels.cpu.predictor import draw_code
from rhapsode.nn.kernels.sampling import NoiseCounters, Repetition, Rules, SamplingOrder, Settings, TopP
from rhapsode.nn.philox import MASK, philox, unit_interval

Noise = Tensor | NoiseCounters
"""Standard Gumbel noise `[B, V]`, or the counters from which the sampling kernel generates it."""


def kept(scores: Tensor, settings: Settings, partial_k: Tensor | None = None) -> Tensor:
    """Returns which ids the filters keep, [B, V]; `partial_k` is `settings.partial_k()`, if the caller has it."""
    likely = None
    if settings.min_p is not None:
        given = scores, settings.temperature, settings.min_p
        likely = _likely(*given) if partial_k is None else _likely_if_asked(*given, partial_k)
        if settings.order == SamplingOrder.MIN_P_FIRST:
            scores = scores.masked_fill(~likely, float("-inf"))
    keep = _kept_by_top(scores, settings, partial_k)
    return keep if likely is None else keep & likely


def probabilities(scores: Tensor, settings: Settings, rules: Rules | None = None) -> Tensor:
    """Returns the distribution that `draw` samples from, [B, V]."""
    scores, seen = _ruled(scores, rules, settings.order)
    scaled = scores / _divisor(settings.temperature)
    return scaled.masked_fill(~kept(seen, settings), float("-inf")).softmax(-1)


@section("sampling")
def draw(
    scores: Tensor,
    settings: Settings,
    noise: Noise,
    partial_k: Tensor | None = None,
    rules: Rules | None = None,
    repetition: Repetition | None = None,
) -> Tensor:
    """Samples one id per row of `scores`.

    A request may have several rows, one after the other: those of codebooks that are drawn `together`. Settings and
    repetition are given once per request. Rules are for one codebook.
    """
    if isinstance(noise, NoiseCounters) and (scores.is_cuda or kernels.on(scores)):
        from rhapsode.nn.kernels.gpu import sampling

        return sampling.draw(scores, settings, noise, rules, repetition)
    if isinstance(noise, NoiseCounters):
        assert repetition is None
        assert noise.books == 1
        return draw_code(*_ruled(scores.float(), rules, settings.order), settings, noise)
    books = len(scores) // len(settings.temperature)
    settings = settings.repeated(books) if books > 1 else settings
    raw = scores.float()
    drawn = _draw(*_ruled(raw, rules, settings.order), settings, noise, partial_k)
    if repetition is None:
        return drawn
    assert isinstance(repetition.noise, Tensor)
    scores, seen = _ruled(raw, None if repetition.raw else rules, repetition.settings.order)
    if repetition.other:
        seen = seen.scatter(1, drawn[:, None], float("-inf"))
    again = repetition.settings.repeated(books) if books > 1 else repetition.settings
    second = _draw(scores, seen, again, repetition.noise, again.partial_k())
    return torch.where(repetition.repeats(drawn), second, drawn)


@section("sampling")
def draw_embedded(
    scores: Tensor, settings: Settings, noise: Noise, table: Tensor, partial_k: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Samples one id per row, and looks its embedding up in `table [V, width]`: [B] and [B, width]."""
    if isinstance(noise, NoiseCounters) and kernels.on(scores) and table.is_contiguous():
        from rhapsode.nn.kernels.gpu import sampling

        embedded = table.new_empty(len(scores), table.shape[1])
        return sampling.draw(scores, settings, noise, None, None, (table, embedded)), embedded
    ids = draw(scores, settings, noise, partial_k)
    return ids, F.embedding(ids, table)


def _ruled(raw: Tensor, rules: Rules | None, order: SamplingOrder) -> tuple[Tensor, Tensor]:
    """Returns the scores to draw from, and those that the filters see."""
    if rules is None:
        return raw, raw
    scores = rules.apply(raw)
    return scores, rules.allowed(raw) if order == SamplingOrder.PENALTY_LAST else scores


def _draw(scores: Tensor, seen: Tensor, settings: Settings, noise: Tensor, partial_k: Tensor | None) -> Tensor:
    # argmax(s / t + g) is argmax(s + t * g), and that needs no special case for temperature 0.
    noisy = scores + noise * settings.temperature[:, None]
    return noisy.masked_fill(~kept(seen, settings, partial_k), float("-inf")).argmax(-1)


def together(noise: Sequence[Noise]) -> Noise:
    """Joins the noise of codebooks of one size, in their order, so that one draw serves all of them: [B * books, V]."""
    first = noise[0]
    if isinstance(first, NoiseCounters):
        return NoiseCounters(first.seeds, first.steps, first.book, len(noise))
    return torch.stack([one for one in noise if isinstance(one, Tensor)], dim=1).flatten(0, 1)


class Gumbel:
    """Generates the noise of all draws of a frame at once: codebook `b` has `sizes[b]` ids."""

    def __init__(self, sizes: Sequence[int], device: torch.device) -> None:
        self._sizes = list(sizes)
        self._index = torch.cat([torch.arange(size) for size in sizes]).to(device)
        self._book = torch.cat([torch.full((size,), book) for book, size in enumerate(sizes)]).to(device)

    @section("sampling")
    def __call__(self, seeds: Tensor, steps: Tensor) -> tuple[Noise, ...]:
        """Returns `[B, size]` per codebook, a function of (seed, frame, codebook, id) alone."""
        if kernels.on(seeds):
            return tuple(NoiseCounters(seeds, steps, book) for book in range(len(self._sizes)))
        key = ((seeds & MASK)[:, None], ((seeds >> 32) & MASK)[:, None])
        counter = (self._index, (steps & MASK)[:, None], self._book, torch.zeros_like(self._index))
        uniform = unit_interval(philox(counter, key)[0])  # [B, all sizes]
        return (-(-uniform.log()).log()).split(self._sizes, dim=1)


@decides
def _divisor(temperature: Tensor) -> Tensor:
    return torch.where(temperature > 0, temperature, torch.ones_like(temperature))[:, None]


def _kept_by_top(scores: Tensor, settings: Settings, partial_k: Tensor | None) -> Tensor:
    """Returns which ids top-k and top-p keep."""
    if settings.rule != TopP.AFTER_TOP_K:
        return _kept_by_rank(scores, settings.top_k, settings.top_p, settings.rule == TopP.THROUGH)
    given = settings.temperature, settings.top_k, settings.top_p
    return _kept_by_sorting(scores, *given) if partial_k is None else _kept(scores, *given, partial_k)


@decides
def _kept_by_sorting(scores: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    width = scores.shape[-1]
    # Ascending, as upstream sorts.
    ordered, ids = torch.sort(scores / _divisor(temperature), stable=True, dim=-1, descending=False)
    top_k = torch.where(top_k > 0, top_k, width).clamp(max=width)[:, None]
    ordered = ordered.masked_fill(ordered < ordered.gather(1, width - top_k), float("-inf"))
    # The tail whose probabilities add up to no more than 1 - top_p is dropped; the most likely id is always kept.
    tail = ordered.softmax(-1).cumsum(-1) <= (1 - top_p)[:, None]
    tail[:, -1] = False
    nucleus = (top_p < 1) & (temperature > 0)
    keep = (ordered > float("-inf")) & ~(tail & nucleus[:, None])
    return torch.empty_like(keep).scatter_(1, ids, keep)


@decides
def _likely(scores: Tensor, temperature: Tensor, min_p: Tensor) -> Tensor:
    """Returns which ids are at least `min_p` times as likely as the likeliest."""
    scaled = scores / _divisor(temperature)
    return scaled >= scaled.amax(-1, keepdim=True) + min_p.log()[:, None]


@decides
def _likely_if_asked(scores: Tensor, temperature: Tensor, min_p: Tensor, partial_k: Tensor) -> Tensor:
    return _likely(scores, temperature, min_p) if int(partial_k) < 0 else scores > float("-inf")


def _kept_by_rank(scores: Tensor, top_k: Tensor, top_p: Tensor, through: bool) -> Tensor:
    ordered, ids = torch.sort(scores, stable=True, dim=-1, descending=True)
    likely = ordered.softmax(-1)
    summed = likely.cumsum(-1)
    inside = summed - likely < top_p[:, None] if through else summed <= top_p[:, None]
    rank = torch.arange(scores.shape[-1], device=scores.device)
    keep = (inside | (top_p >= 1)[:, None]) & ((rank < top_k[:, None]) | (top_k == 0)[:, None])
    keep = (keep | (rank == 0)) & (ordered > float("-inf"))
    return torch.empty_like(keep).scatter_(1, ids, keep)


@decides
def _kept(scores: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor, partial_k: Tensor) -> Tensor:
    largest = int(partial_k)
    if largest < 0:
        return _kept_by_sorting(scores, temperature, top_k, top_p)
    if largest == 0:
        return scores > float("-inf")
    best = scores.topk(min(largest, scores.shape[-1]))[0]
    last = best.gather(1, (top_k[:, None] - 1).clamp(0, best.shape[1] - 1))
    # Ids that tie with the k-th are kept, as upstream does.
    return ((scores >= last) | (top_k[:, None] == 0)) & (scores > float("-inf"))
