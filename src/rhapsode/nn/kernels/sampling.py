"""How rows sample: the records that the sampling kernel and its reference share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

MAX_PARTIAL_K = 64
"""Up to this top-k, a partial sort finds the ids to keep."""


@dataclass(frozen=True)
class Settings:
    """Sampling parameters per row. Temperature 0 is greedy; top-k 0 and top-p 1 keep everything."""

    temperature: Tensor  # [B]
    top_k: Tensor  # [B] int64
    top_p: Tensor  # [B]

    def partial_k(self) -> Tensor | None:
        """Returns the largest top-k if a partial sort of that size serves all rows, and -1 if none does.

        Returns `None` on a GPU, whose kernel needs no sort.
        """
        if self.top_k.device.type != "cpu":
            return None
        largest = self.top_k.max()
        return largest.masked_fill((self.top_p < 1).any() | (largest > MAX_PARTIAL_K), -1)


@dataclass(frozen=True)
class Rules:
    """What is applied to logits before the settings: a repetition penalty, and ids that may not be sampled."""

    history: Tensor  # [slots, V] bool: sampled before
    slots: Tensor  # [B], the rows' places in it
    penalty: Tensor  # [B]
    banned: Tensor  # [V] bool: never sampled
    late: Tensor  # [V] bool: not sampled before `least_steps`
    steps: Tensor  # [B]
    least_steps: int

    def apply(self, scores: Tensor) -> Tensor:
        scores = penalize(scores, self.history[self.slots], self.penalty)
        early = (self.steps < self.least_steps)[:, None]
        return scores.masked_fill(self.banned | (self.late & early), float("-inf"))


@dataclass(frozen=True)
class NoiseCounters:
    """What Gumbel noise is a function of, beside the ids: the kernel that samples generates the noise itself."""

    seeds: Tensor  # [B]
    steps: Tensor  # [B]
    book: int


def penalize(scores: Tensor, history: Tensor, penalty: Tensor) -> Tensor:
    """Applies the repetition penalty `[B]` once to each id that is true in `history [B, V]`."""
    penalty = penalty[:, None]
    return torch.where(history, torch.where(scores < 0, scores * penalty, scores / penalty), scores)
