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
from rhapsode.engine.clock import clock_s
from rhapsode.engine.growth import PageGrowth
from rhapsode.engine.isolation import isolate
from rhapsode.engine.row import PromptRow
from rhapsode.models.base import PrefillsPrompt, Span
from rhapsode.types import Sampling

Row = TypeVar("Row", bound=PromptRow)

STALL_S, LEAST_POSITIONS = 0.03, 16
"""While somebody speaks, prompts may take so long per turn where a launch is the work; but no fewer positions."""
CROWD_TURNS = 8
"""For so many prefill launches at most, the first rows of a crowd wait for the others."""


class Prefill(Generic[Row]):
    """Rows that are joining, in the order they came. Each turn runs a bounded number of prompt positions."""

    def __init__(
        self,
        worker: PrefillsPrompt,
        memory: SlotMemory,
        defaults: Sampling,
        positions_per_turn: int,
        *,
        alone: bool,
        together: bool = False,
        growth: PageGrowth | None = None,
        inline: bool = False,
    ) -> None:
        """`alone`: one row a turn and no shared pages, so that what is computed depends on no other request.

        `together`: rows of a crowd start together. A row that starts while others are prefilled gets its frames at a
        slower pace than they are played, and its listener would run dry.

        `inline`: a launch is the work itself, as on a CPU.

        With `growth`, rows get the pages of their prompts alone, and more of them as they go on.
        """
        self._growth = growth
        self._worker = worker
        self._memory = memory
        self._defaults = defaults
        self._positions_per_turn = self._positions = positions_per_turn
        self._alone = alone
        self._can_measure = inline and not alone and growth is None
        self._position_s = 0.0
        self._together = together
        self._waiting: deque[Row] = deque()  # for pages
        self._filling: list[Row] = []
        self._ready: list[Row] = []  # for the others of their crowd
        self._last_of_crowd: Row | None = None
        self._crowd_turns = 0

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
        """Runs a row's prompt once more into the pages it has. Where pages grow, its own pages still hold it."""
        row.filled = 0
        if self._growth is not None:
            self._growth.shrink(row)
            row.filled = row.prompt.length
        self._memory.join([self._slot_row(row)])
        self._filling.append(row)

    def remove(self, row: Row) -> None:
        if row in self._waiting:
            self._waiting.remove(row)
        if row in self._filling:
            self._filling.remove(row)
        if row in self._ready:
            self._ready.remove(row)

    def turn(self, fail: Callable[[Row, BaseException], None], speaking: bool = False) -> tuple[list[Row], bool]:
        """Moves on; returns the rows that are ready to step, and whether there was anything to do.

        `speaking`: listeners wait for the turn.
        """
        self._reserve()
        self._positions = self._budget(speaking)
        batch = self._batch()
        for rows, stops in isolate(batch, self._launch, fail):
            for row, stop in zip(rows, stops, strict=True):
                self._publish(row, stop)
                if stop == row.prompt.length:
                    self._filling.remove(row)
                    self._ready.append(row)
        return self._starting(), bool(batch)

    def _budget(self, speaking: bool) -> int:
        """Returns how many positions this turn may run."""
        if not speaking or not self._position_s:
            return self._positions_per_turn
        return min(self._positions_per_turn, max(LEAST_POSITIONS, int(STALL_S / self._position_s)))

    def _starting(self) -> list[Row]:
        """Takes the rows that start now: all that are ready, once the crowd they came with is."""
        if self._ready and self._together and self._filling:
            if self._last_of_crowd is None:
                self._last_of_crowd, self._crowd_turns = self._filling[-1], 0
            self._crowd_turns += 1
            if self._last_of_crowd in self._filling and self._crowd_turns < CROWD_TURNS:
                heard = [row for row in self._ready if row.part]  # their listeners wait for nobody
                self._ready = [row for row in self._ready if not row.part]
                return heard
        starting, self._ready, self._last_of_crowd = self._ready, [], None
        return starting

    def _reserve(self) -> None:
        """Takes pages for a request's whole life at once, unless they grow: no request runs out of them midway."""
        memory = self._memory
        joining: list[Row] = []
        while self._waiting:
            row = self._waiting[0]
            if self._growth is not None:
                reserved = self._growth.reserve(row)
            else:
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
        budget, longest = self._positions, 0
        for row in self._filling[:1] if self._alone else self._filling:
            longest = max(longest, min(budget, row.prompt.length - row.filled))
            if budget <= 0 or not prompts_fit(len(batch) + 1, longest, self._positions_per_turn):
                break
            budget -= max(1, row.prompt.length - row.filled)
            batch.append(row)
        return batch

    def _launch(self, rows: Sequence[Row]) -> list[int]:
        budget, started_s = self._positions, clock_s()
        spans: list[Span] = []
        for row in rows:
            stop = min(row.prompt.length, row.filled + budget)
            budget -= stop - row.filled
            spans.append(Span(row.filled, stop, row.base))
        memory = self._memory
        slots = memory.slots([row.slot for row in rows])
        with section("prefill"):
            self._worker.prefill([row.prompt for row in rows], spans, memory.rows(slots), memory.state)
        positions = sum(span.stop - span.start for span in spans)
        if self._can_measure and positions:
            self._position_s = (clock_s() - started_s) / positions
        return [span.stop for span in spans]

    def _publish(self, row: Row, stop: int) -> None:
        """Lets others share the whole pages whose content is there now."""
        whole = 0 if row.base else stop // self._memory.page_size
        for page, key in zip(row.pages[:whole], row.keys[:whole], strict=False):  # without keys nothing is shared
            self._memory.pool.publish(page, key)
        row.filled = stop
