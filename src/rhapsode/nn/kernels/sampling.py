"""How rows sample: the records that the sampling kernel and its reference share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Protocol

import torch
from torch import Tensor

from rhapsode.sampling_table import PARAMETERS

MAX_PARTIAL_K = 64
"""Up to this top-k, a partial sort finds the ids to keep."""
NOTHING = -1
"""Marks a place without an id among a row's recent ids."""


class TopP(IntEnum):
    """Which ids top-p keeps. The most likely id is always kept."""

    AFTER_TOP_K = 0
    """Of the ids that top-k keeps, with temperature: the fewest whose probabilities add up to p (Hugging Face)."""
    THROUGH = 1
    """Of all ids, without temperature: the fewest whose probabilities add up to p. Top-k counts ranks: ties are cut."""
    BELOW = 2
    """The same without the id that crosses p: as many as fit below it."""


class SamplingOrder(IntEnum):
    """In which order the rules are applied, after banned ids and the temperature. A talker states it."""

    MIN_P_LAST = 0
    """Repetition penalty, top-k, top-p, min-p (Hugging Face)."""
    MIN_P_FIRST = 1
    """Repetition penalty, min-p, top-k, top-p: top-p adds up the probabilities of what min-p keeps."""
    PENALTY_LAST = 2
    """Top-k, top-p, min-p, repetition penalty: the filters see scores without the penalty."""


class SampledRows(Protocol):
    """Rows of a launch, with the sampling parameters of their requests."""

    def column(self, name: str) -> Tensor:
        """Returns a parameter, [B]."""


@dataclass(frozen=True)
class Settings:
    """Sampling parameters per row. Temperature 0 is greedy; top-k 0, top-p 1 and min-p 0 keep everything."""

    temperature: Tensor  # [B]
    top_k: Tensor  # [B] int64
    top_p: Tensor  # [B]
    rule: TopP = TopP.AFTER_TOP_K
    min_p: Tensor | None = None  # [B]
    order: SamplingOrder = SamplingOrder.MIN_P_LAST

    def partial_k(self) -> Tensor | None:
        """Returns how many ids a CPU has to sort to find those that top-k keeps: the largest top-k of the rows.

        -1: that is not enough, because a row has another filter or a large top-k, so all ids are sorted. `None`:
        nothing is sorted here, on a GPU and for the rules that count ranks.
        """
        if self.top_k.device.type != "cpu" or self.rule != TopP.AFTER_TOP_K:
            return None
        largest = self.top_k.max()
        others = self.top_p < 1 if self.min_p is None else (self.top_p < 1) | (self.min_p > 0)
        return largest.masked_fill(others.any() | (largest > MAX_PARTIAL_K), -1)

    @classmethod
    def of(
        cls, rows: SampledRows, rule: TopP = TopP.AFTER_TOP_K, order: SamplingOrder = SamplingOrder.MIN_P_LAST
    ) -> Settings:
        """Returns the settings of these rows: all that their requests set."""
        return cls(**{name: rows.column(name) for name in COLUMNS}, rule=rule, order=order)

    def columns(self) -> dict[str, Any]:
        """Returns the parameters by name; one that is `None` has no effect on any row."""
        return {name: vars(self)[name] for name in COLUMNS}

    def repeated(self, times: int) -> Settings:
        """Returns the settings with each row repeated, for codebooks that are drawn at once."""
        given = {name: values for name, values in self.columns().items() if values is not None}
        return replace(self, **{name: values.repeat_interleave(times) for name, values in given.items()})


COLUMNS = tuple(parameter.name for parameter in PARAMETERS if parameter.name in Settings.__dataclass_fields__)
"""The sampling parameters that are settings. The repetition penalty is one of the `Rules`."""


@dataclass(frozen=True)
class Rules:
    """What is applied to logits beside the settings: a repetition penalty, and ids that may not be sampled."""

    history: Tensor  # [slots, V] bool: sampled before
    slots: Tensor  # [B], the rows' places in it
    penalty: Tensor  # [B]
    banned: Tensor  # [V] bool: never sampled
    late: Tensor  # [V] bool: not sampled before `least_steps`
    steps: Tensor  # [B]
    least_steps: int

    def apply(self, scores: Tensor) -> Tensor:
        return self.allowed(penalize(scores, self.history[self.slots], self.penalty))

    def allowed(self, scores: Tensor) -> Tensor:
        """Returns the scores without those of ids that may not be sampled."""
        early = (self.steps < self.least_steps)[:, None]
        return scores.masked_fill(self.banned | (self.late & early), float("-inf"))


@dataclass(frozen=True)
class NoiseCounters:
    """The numbers, beside the ids, from which the sampling kernel itself generates Gumbel noise."""

    seeds: Tensor  # [B]
    steps: Tensor  # [B]
    book: int
    books: int = 1
    """Codebooks that are drawn at once, from `book` on. A request has one row of logits for each, in this order."""


@dataclass(frozen=True)
class Repetition:
    """Repetition-aware sampling: an id that a row has drawn too often recently is replaced by a second draw.

    The second draw has settings and noise of its own, and is final even if it repeats an id.
    """

    recent: Tensor  # [slots * books, window] int64, any strides: the ids that count, in any order, or `NOTHING`
    slots: Tensor  # [B], the rows' places in it
    limit: Tensor  # [B]: how often an id must be among them to be replaced; 0 is never
    settings: Settings
    noise: Tensor | NoiseCounters
    raw: bool = False
    """The second draw is from the logits as the network computed them, without `Rules`."""
    other: bool = False
    """The second draw cannot return the id of the first."""

    def repeats(self, ids: Tensor) -> Tensor:
        """Returns whether each id `[B * books]` is to be replaced."""
        books = len(ids) // len(self.slots)
        recent = self.recent.unflatten(0, (-1, books))[self.slots].flatten(0, 1)
        limit = self.limit.repeat_interleave(books)
        return (limit > 0) & ((recent == ids[:, None]).sum(1) >= limit)


def penalize(scores: Tensor, history: Tensor, penalty: Tensor) -> Tensor:
    """Applies the repetition penalty `[B]` once to each id that is true in `history [B, V]`."""
    penalty = penalty[:, None]
    return torch.where(history, torch.where(scores < 0, scores * penalty, scores / penalty), scores)
