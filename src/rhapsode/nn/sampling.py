"""Drawing from logits on the device: per row, without waiting for the host, the same whoever else is in the batch.

The order and the meaning of the rules are those of the Hugging Face processors: repetition penalty, bans, temperature,
top-k, top-p. A draw is a Gumbel race: every id has a number of its own from the counter RNG, and the highest sum wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

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

    def narrow(self) -> int | None:
        """The largest top-k, if it is small and no row wants top-p. A GPU is never asked: there it is `None`."""
        if self.top_k.device.type != "cpu" or bool((self.top_p < 1).any()):
            return None
        most = int(self.top_k.max())
        return most if most <= NARROW else None


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


def kept(scores: Tensor, settings: Settings, narrow: int | None = None) -> Tensor:
    """Which ids top-k and top-p leave, [B, V]; `narrow` is what `settings.narrow()` says, where the caller asked it."""
    if narrow is None:
        return _kept_by_sorting(scores, settings)
    if narrow == 0:
        return scores > _NEVER
    best = scores.topk(min(narrow, scores.shape[-1])).values
    last = best.gather(1, (settings.top_k[:, None] - 1).clamp(0, best.shape[1] - 1))
    return (scores >= last) | (settings.top_k[:, None] == 0)  # ids that tie with the k-th stay, as upstream has it


def probabilities(scores: Tensor, settings: Settings) -> Tensor:
    """What a draw draws from, [B, V]."""
    scaled = scores / _divisor(settings)
    return scaled.masked_fill(~kept(scores, settings), _NEVER).softmax(-1)


def draw(
    scores: Tensor, settings: Settings, noise: Noise, narrow: int | None = None, rules: Rules | None = None
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


def _divisor(settings: Settings) -> Tensor:
    heat = settings.temperature
    return torch.where(heat > 0, heat, torch.ones_like(heat))[:, None]


def _kept_by_sorting(scores: Tensor, settings: Settings) -> Tensor:
    width = scores.shape[-1]
    ordered, ids = torch.sort(scores / _divisor(settings), dim=-1, stable=True)  # ascending, as upstream sorts
    top_k = torch.where(settings.top_k > 0, settings.top_k, width).clamp(max=width)[:, None]
    ordered = ordered.masked_fill(ordered < ordered.gather(1, width - top_k), _NEVER)
    # The tail whose probabilities add up to no more than 1 - top_p goes; the most likely id always stays.
    tail = ordered.softmax(-1).cumsum(-1) <= (1 - settings.top_p)[:, None]
    tail[:, -1] = False
    narrowed = (settings.top_p < 1) & (settings.temperature > 0)
    keep = (ordered > _NEVER) & ~(tail & narrowed[:, None])
    return torch.empty_like(keep).scatter_(1, ids, keep)
