"""From a prompt to the first step: reserves pages for all a request can need, then runs its prompt in pieces."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from rhapsode.device.buckets import prompts_fit
from rhapsode.device.memory import SlotMemory
from rhapsode.device.sections import section
from rhapsode.device.slots import SlotRow
from rhapsode.engine.isolation import isolate
from rhapsode.engine.row import PromptRow
from rhapsode.models.base import PrefillsPrompt, Span
from rhapsode.types import Sampling

Row = TypeVar("Row", bound=PromptRow)


class Prefill(Generic[Row]):
    """Rows that are joining, in the order they came. Each turn runs a bounded number of prompt positions."""

    def __init__(
        self, worker: PrefillsPrompt, memory: SlotMemory, defaults: Sampling, positions_per_turn: int, alone: bool
    ) -> None:
        """`alone`: one row a turn and no shared pages, so that what is computed depends on no other request."""
        self._worker = worker
        self._memory = memory
        self._defaults = defaults
        self._positions_per_turn = positions_per_turn
        self._alone = alone
        self._waiting: deque[Row] = deque()  # for pages
        self._filling: list[Row] = []

    def add(self, row: Row) -> None:
        """Takes a row in; one whose listener already hears something goes first."""
        if self._alone:
            row.keys = []
        if row.base:  # it has its pages, and its counters are where the prompt before it stopped
            self._memory.table.place(np.array([row.slot]), np.array([row.base]), np.array([row.first_step]))
            self._filling.append(row)
        elif row.part:
            self._waiting.appendleft(row)
        else:
            self._waiting.append(row)

    def again(self, row: Row) -> None:
        """Runs a row's prompt once more into the pages it has."""
        self._memory.join([self._slot_row(row)])
        row.filled = 0
        self._filling.append(row)

    def remove(self, row: Row) -> None:
        if row in self._waiting:
            self._waiting.remove(row)
        if row in self._filling:
            self._filling.remove(row)

    def turn(self, fail: Callable[[Row, BaseException], None]) -> tuple[list[Row], bool]:
        """Moves on; returns the rows that are ready to step, and whether there was anything to do."""
        self._reserve()
        batch = self._batch()
        ready: list[Row] = []
        for rows, stops in isolate(batch, self._launch, fail):
            for row, stop in zip(rows, stops, strict=True):
                self._publish(row, stop)
                if stop == row.prompt.length:
                    self._filling.remove(row)
                    ready.append(row)
        return ready, bool(batch)

    def _reserve(self) -> None:
        """Takes pages for a request's whole life at once: no request runs out of them midway."""
        memory = self._memory
        joining: list[Row] = []
        while self._waiting:
            row = self._waiting[0]
            reserved = memory.pool.reserve(memory.pages_for(row.reserve), row.keys)
            if reserved is None:
                break
            self._waiting.popleft()
            row.pages, shared = reserved
            row.filled = shared * memory.page_size
            joining.append(row)
        if joining:
            memory.join([self._slot_row(row) for row in joining])
            self._filling += joining

    def _slot_row(self, row: Row) -> SlotRow:
        sampling = row.job.request.sampling.over(self._defaults)
        return SlotRow(row.slot, (row.job.seed + row.draw) % 2**63, row.pages, **vars(sampling))

    def _batch(self) -> list[Row]:
        """The rows of the next launch: as many as its budget of positions and its captured shapes allow."""
        batch: list[Row] = []
        budget, longest = self._positions_per_turn, 0
        for row in self._filling[:1] if self._alone else self._filling:
            longest = max(longest, min(budget, row.prompt.length - row.filled))
            if budget <= 0 or not prompts_fit(len(batch) + 1, longest, self._positions_per_turn):
                break
            budget -= max(1, row.prompt.length - row.filled)
            batch.append(row)
        return batch

    def _launch(self, rows: Sequence[Row]) -> list[int]:
        budget = self._positions_per_turn
        spans: list[Span] = []
        for row in rows:
            stop = min(row.prompt.length, row.filled + budget)
            budget -= stop - row.filled
            spans.append(Span(row.filled, stop, row.base))
        memory = self._memory
        slots = memory.slots([row.slot for row in rows])
        with section("prefill"):
            self._worker.prefill([row.prompt for row in rows], spans, memory.rows(slots), memory.state)
        return [span.stop for span in spans]

    def _publish(self, row: Row, stop: int) -> None:
        """Lets others share the whole pages whose content is there now."""
        whole = 0 if row.base else stop // self._memory.page_size
        for page, key in zip(row.pages[:whole], row.keys[:whole], strict=False):  # without keys nothing is shared
            self._memory.pool.publish(page, key)
        row.filled = stop
