"""Drawing from logits on the device: per row, without waiting for the host, the same whoever else is in the batch.

The order and the meaning of the rules are those of the Hugging Face processors: repetition penalty, bans, temperature,
top-k, top-p. A draw is a Gumbel race: every id has a number of its own from the counter RNG, and the highest sum wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rhapsode.device.sections import section
from rhapsode.device.trace import decides
from rhapsode.nn import kernels
from rhapsode.nn.philox import BELOW_ONE, philox

NARROW = 64
"""Up to this top-k, a partial sort finds what is kept."""

_NEVER = float("-inf")


@dataclass(frozen=True)
class Settings:
    """How each row draws. Temperature 0 is greedy; top-k 0 and top-p 1 keep everything."""

    temperature: Tensor  # [B]
    top_k: Tensor  # [B] int64
    top_p: Tensor  # [B]

    def narrow(self) -> Tensor | None:
        """The largest top-k, if it is small and no row wants top-p, or else -1. A GPU is never asked: `None`."""
        if self.top_k.device.type != "cpu":
            return None
        most = self.top_k.max()
        return most.masked_fill((self.top_p < 1).any() | (most > NARROW), -1)


@dataclass(frozen=True)
class Rules:
    """What comes before the settings: a penalty on what was drawn before, and ids that may not be drawn."""

    history: Tensor  # [slots, V] bool: drawn before
    slots: Tensor  # [B], the rows' places in it
    penalty: Tensor  # [B]
    banned: Tensor  # [V] bool: never to be drawn
    late: Tensor  # [V] bool: not before `least_steps`
    steps: Tensor  # [B]
    least_steps: int

    def apply(self, scores: Tensor) -> Tensor:
        scores = penalize(scores, self.history[self.slots], self.penalty)
        early = (self.steps < self.least_steps)[:, None]
        return scores.masked_fill(self.banned | (self.late & early), _NEVER)


@dataclass(frozen=True)
class Counters:
    """Noise that is still to be made, by the kernel that draws: what it is a function of, beside the ids."""

    seeds: Tensor  # [B]
    steps: Tensor  # [B]
    book: int


Noise = Tensor | Counters
"""Standard Gumbel noise, `[B, V]`."""


def penalize(scores: Tensor, history: Tensor, penalty: Tensor) -> Tensor:
    """Make what was drawn before less likely, once for each id; `history [B, V]` is true there, `penalty` is [B]."""
    penalty = penalty[:, None]
    return torch.where(history, torch.where(scores < 0, scores * penalty, scores / penalty), scores)


def kept(scores: Tensor, settings: Settings, narrow: Tensor | None = None) -> Tensor:
    """Which ids top-k and top-p leave, [B, V]; `narrow` is what `settings.narrow()` says, where the caller asked it."""
    given = settings.temperature, settings.top_k, settings.top_p
    return _kept_by_sorting(scores, *given) if narrow is None else _kept(scores, *given, narrow)


def probabilities(scores: Tensor, settings: Settings) -> Tensor:
    """What a draw draws from, [B, V]."""
    scaled = scores / _divisor(settings.temperature)
    return scaled.masked_fill(~kept(scores, settings), _NEVER).softmax(-1)


@section("sampling")
def draw(
    scores: Tensor, settings: Settings, noise: Noise, narrow: Tensor | None = None, rules: Rules | None = None
) -> Tensor:
    """One id per row, [B]."""
    if isinstance(noise, Counters):
        from rhapsode.nn.kernels.gpu import sampling

        return sampling.draw(scores, settings, noise, rules)
    scores = scores.float()
    if rules is not None:
        scores = rules.apply(scores)
    # max(s / t + g) is where max(s + t * g) is, and temperature 0 needs no case of its own.
    raced = scores + noise * settings.temperature[:, None]
    return raced.masked_fill(~kept(scores, settings, narrow), _NEVER).argmax(-1)


class Gumbel:
    """The noise of all draws of a frame at once: one codebook of `sizes[b]` ids after the other."""

    def __init__(self, sizes: Sequence[int], device: torch.device) -> None:
        self._sizes = list(sizes)
        self._index = torch.cat([torch.arange(size) for size in sizes]).to(device)
        self._book = torch.cat([torch.full((size,), book) for book, size in enumerate(sizes)]).to(device)

    @section("sampling")
    def __call__(self, seeds: Tensor, steps: Tensor) -> tuple[Noise, ...]:
        """For each codebook `[B, size]`, a function of (seed, frame, codebook, id) alone."""
        if kernels.on(seeds):
            return tuple(Counters(seeds, steps, book) for book in range(len(self._sizes)))
        low = 0xFFFFFFFF
        key = ((seeds & low)[:, None], ((seeds >> 32) & low)[:, None])
        counter = (self._index, (steps & low)[:, None], self._book, torch.zeros_like(self._index))
        word = philox(counter, key)[0]  # [B, all sizes]
        uniform = ((word >> 8).to(torch.float32) + 0.5) * (1.0 / (1 << 24))  # as `philox.uniform` has it
        return (-(-uniform.clamp_(max=BELOW_ONE).log()).log()).split(self._sizes, dim=1)


@decides
def _divisor(heat: Tensor) -> Tensor:
    return torch.where(heat > 0, heat, torch.ones_like(heat))[:, None]


@decides
def _kept_by_sorting(scores: Tensor, heat: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    width = scores.shape[-1]
    # Ascending, as upstream sorts.
    ordered, ids = torch.sort(scores / _divisor(heat), stable=True, dim=-1, descending=False)
    top_k = torch.where(top_k > 0, top_k, width).clamp(max=width)[:, None]
    ordered = ordered.masked_fill(ordered < ordered.gather(1, width - top_k), float("-inf"))
    # The tail whose probabilities add up to no more than 1 - top_p goes; the most likely id always stays.
    tail = ordered.softmax(-1).cumsum(-1) <= (1 - top_p)[:, None]
    tail[:, -1] = False
    narrowed = (top_p < 1) & (heat > 0)
    keep = (ordered > float("-inf")) & ~(tail & narrowed[:, None])
    return torch.empty_like(keep).scatter_(1, ids, keep)


@decides
def _kept(scores: Tensor, heat: Tensor, top_k: Tensor, top_p: Tensor, narrow: Tensor) -> Tensor:
    most = int(narrow)
    if most < 0:
        return _kept_by_sorting(scores, heat, top_k, top_p)
    if most == 0:
        return scores > float("-inf")
    best = scores.topk(min(most, scores.shape[-1]))[0]
    last = best.gather(1, (top_k[:, None] - 1).clamp(0, best.shape[1] - 1))
    return (scores >= last) | (top_k[:, None] == 0)  # ids that tie with the k-th stay, as upstream has it
