"""Calls a talker as the frame stage does, without its thread."""

from collections.abc import Sequence
from typing import Any

import torch

from rhapsode.device.kv import PagedKV
from rhapsode.device.slots import Rows, SlotRow, SlotTable
from rhapsode.models.base import Prompt, Span, Step
from rhapsode.sampling_table import WITHOUT_EFFECT
from rhapsode.types import Sampling

CPU = torch.device("cpu")


def rows_of(seeds: Sequence[int], steps: Sequence[int], temperatures: Sequence[float]) -> Rows:
    """The rows of slots 0, 1, 2 ... with these counters."""
    table = SlotTable(len(seeds), 1, CPU)
    for column, values in ((table.seed, seeds), (table.step, steps), (table.temperature, temperatures)):
        column[: len(values)] = torch.tensor(values, dtype=column.dtype)
    return Rows(torch.arange(len(seeds)), table)


class TalkerHarness:
    """One talker with memory for a few slots."""

    def __init__(
        self,
        talker: Any,
        slots: int = 4,
        page_size: int = 16,
        positions: int = 256,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        pages = -(-positions // page_size)
        self.talker = talker
        self.table = SlotTable(slots, pages, CPU)
        self.kv = tuple(PagedKV(layout, slots * pages, page_size, dtype, CPU) for layout in talker.traits().kv)
        self.state = talker.state(slots)
        self._pages = [list(range(1 + slot * pages, 1 + (slot + 1) * pages)) for slot in range(slots)]

    def rows(self, *slots: int) -> Rows:
        return Rows(torch.tensor(slots), self.table, self.kv, self.state)

    def join(
        self,
        slots: Sequence[int],
        prompts: Sequence[Prompt],
        sampling: Sampling | None = None,
        seeds: Sequence[int] | None = None,
        piece: int = 1000,
    ) -> Sequence[bool] | None:
        """Prefills these prompts together, `piece` positions of each at a time; returns what the last piece did."""
        chosen = (sampling or Sampling()).over(self.talker.defaults.over(WITHOUT_EFFECT))
        made = zip(slots, seeds or [0] * len(slots), strict=True)
        self.table.join(
            [SlotRow(slot=slot, seed=seed, pages=self._pages[slot], sampling=chosen) for slot, seed in made]
        )
        self.state.clear(torch.tensor(slots))
        begun: Sequence[bool] | None = None
        for start in range(0, max(prompt.length for prompt in prompts), piece):
            going = [(s, p) for s, p in zip(slots, prompts, strict=True) if start < p.length]
            spans = [Span(start, min(start + piece, p.length)) for _, p in going]
            begun = self.talker.prefill([p for _, p in going], spans, self.rows(*(s for s, _ in going)), self.state)
        for slot, prompt in zip(slots, prompts, strict=True):
            self.table.position[slot] = prompt.length
        return begun

    def step(self, *slots: int) -> Step:
        """One frame of each of these slots."""
        rows = self.rows(*slots)
        step: Step = self.make_step(rows)
        self.table.advance(rows.slots)
        return step

    def make_step(self, rows: Rows) -> Step:
        step: Step = self.talker.step(rows, self.state)
        return step
