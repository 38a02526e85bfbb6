"""Prefill: reserves the pages of a request, then runs its prompt in pieces until it is ready for its first step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from rhapsode.config import Deployment
from rhapsode.device.buckets import padded_positions
from rhapsode.device.landing import LANDING_S
from rhapsode.device.launch_times import LaunchTimes
from rhapsode.device.memory import SlotMemory
from rhapsode.device.pages import Key, page_keys
from rhapsode.device.sections import section
from rhapsode.device.slots import Rows, SlotRow
from rhapsode.engine.growth import PageGrowth
from rhapsode.engine.isolation import isolate
from rhapsode.engine.prompt_batch import prompt_batch
from rhapsode.engine.row import PromptRow
from rhapsode.engine.stage import Work
from rhapsode.models.base import Prompt, Span, traits_of
from rhapsode.sampling_table import WITHOUT_EFFECT
from rhapsode.types import Sampling

Row = TypeVar("Row", bound=PromptRow)
RunPrompts = Callable[[Sequence[Prompt], Sequence[Span], Rows, Any], Sequence[bool] | None]
"""A worker's `Traits.prefill`."""
PREFILL_BLOCKS = 4
"""The most blocks of prompts in one launch, for stages that take pages block by block."""

STALL_S, LEAST_POSITIONS = 0.03, 16
"""While listeners wait for frames, a launch of prompts takes at most this long, but has at least so many positions."""
CROWD_TURNS = 8
"""The most prefill launches for which the first rows of a crowd (requests that join together) wait for the others."""
MOST_IN_FLIGHT = 2
"""The most launches of prompts in flight on a GPU: what is launched after them, such as a frame, waits for them."""
JOINS_PER_TURN = 64
"""The most rows that get their pages in one turn: all listeners wait while the host does this."""


class Prepared(NamedTuple):
    """A prompt with the keys of its pages."""

    prompt: Prompt
    keys: list[Key]


class PromptTurn(NamedTuple, Generic[Row]):
    """What a turn has done."""

    ready: list[Row]
    """Rows that can step from now on."""
    busy: bool
    """There was anything to do."""
    launched_s: list[float]
    """How long each of its launches will probably take; 0 if that is not known."""


class Prefill(Generic[Row]):
    """Prefills the rows that are joining, in the order they came. A turn runs a bounded number of prompt positions."""

    def __init__(
        self,
        run: RunPrompts,
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

        `together`: rows of a crowd start together. A row that starts while others are prefilled would get its frames
        more slowly than they are played, and its listener would underrun.

        `inline`: a launch does the work itself, as on a CPU.

        With `growth`, rows first get only the pages of their prompts, and more as they go on.
        """
        self._growth = growth
        self._run = run
        self._memory = memory
        self._defaults = defaults.over(WITHOUT_EFFECT)
        self._positions_per_turn = self._positions = positions_per_turn
        self._alone = alone
        self._is_inline = inline
        self._adapts = not alone and growth is None
        self._times = LaunchTimes(memory.device)
        self._together = together
        self._waiting: deque[Row] = deque()  # for pages
        self._filling: list[Row] = []
        self._ready: list[Row] = []  # they wait for the others of their crowd
        self._crowd: set[Row] | None = None  # rows of the current crowd that are not ready
        self._crowd_turns = 0
        self._launched_s: list[float] = []

    def add(self, row: Row) -> None:
        """Adds a row. One that continues a request, whose listener already hears audio, goes first."""
        if self._alone:
            row.keys = []
        if row.base:  # it continues the prompt before it, and has its pages already
            self._memory.table.place(np.array([row.slot]), np.array([row.base]), np.array([row.first_step]))
            self._filling.insert(0, row)
        elif row.part:
            self._waiting.appendleft(row)
        else:
            self._waiting.append(row)

    def again(self, row: Row) -> None:
        """Runs a row's prompt once more into its pages. With `growth`, these still hold it, and nothing is computed."""
        row.filled = 0
        if self._growth is not None:
            self._growth.shrink(row)
            row.filled = row.prompt.length
        self._memory.join([self._slot_row(row)])
        self._filling.append(row)

    def leave(self, row: Row) -> None:
        """Forgets a row and frees its pages; calling it twice does no harm."""
        self.free(row)
        if row in self._waiting:
            self._waiting.remove(row)
        if row in self._filling:
            self._filling.remove(row)
        if row in self._ready:
            self._ready.remove(row)
        if self._crowd is not None:
            self._crowd.discard(row)

    def free(self, row: Row) -> None:
        """Frees the pages of a row."""
        self._memory.pool.free(row.pages)
        row.pages = []
        if self._growth is not None:
            self._growth.leave(row)

    @property
    def is_pending(self) -> bool:
        """Whether rows with pages wait for launches of their prompts."""
        return bool(self._filling)

    @property
    def poll_s(self) -> float | None:
        return LANDING_S if self._times.in_flight else None

    def prepared(self, work: Work) -> Work:
        """Returns work with its prompt prepared. Called in the thread that sends it."""
        if not isinstance(prompt := work.payload, Prompt):
            return work
        keys = page_keys(prompt.content, self._memory.page_size, *prompt.brief)
        return Work(work.job, Prepared(prompt, keys), work.part)

    def turn(self, fail: Callable[[Row, BaseException], None], speaking: bool = False) -> PromptTurn[Row]:
        """Runs one turn. `speaking`: listeners of other requests wait for it."""
        self._launched_s = []
        has_joined = self._reserve()
        self._positions = self._budget(speaking)
        batch = self._batch() if self._times.in_flight < MOST_IN_FLIGHT else []
        filled: set[Row] = set()
        for rows, stops in isolate(batch, self._launch, fail):
            for row, stop in zip(rows, stops, strict=True):
                self._publish(row, stop)
                if stop == row.prompt.length:
                    filled.add(row)
                    self._ready.append(row)
        self._filling = [row for row in self._filling if row not in filled]
        if self._crowd is not None:
            self._crowd -= filled
        ready = self._starting() if batch or not self._filling else []
        return PromptTurn(ready, bool(batch) or has_joined, self._launched_s)

    def _budget(self, speaking: bool) -> int:
        """Returns how many positions this turn may run."""
        # On a GPU the captured shapes are the limit, with room for some padding.
        most = self._positions_per_turn if self._is_inline or not self._adapts else 2 * self._positions_per_turn
        in_time = self._times.most(STALL_S) if speaking and self._adapts else None
        return most if in_time is None else min(most, max(LEAST_POSITIONS, in_time))

    def _starting(self) -> list[Row]:
        """Removes and returns the rows that start now: all that are ready, once the rest of their crowd is, too."""
        if self._ready and self._together and self._filling:
            if self._crowd is None:
                self._crowd, self._crowd_turns = set(self._filling), 0
            self._crowd_turns += 1
            if self._crowd and self._crowd_turns < CROWD_TURNS:
                heard = [row for row in self._ready if row.part]  # rows of running requests start at once
                self._ready = [row for row in self._ready if not row.part]
                return heard
        starting, self._ready, self._crowd = self._ready, [], None
        return starting

    def _reserve(self) -> bool:
        """Reserves pages for joining rows; returns whether any row joined.

        Unless pages grow, a request gets all pages it can need at once, so that it cannot run out of them midway.
        """
        memory = self._memory
        joining: list[Row] = []
        while self._waiting and len(joining) < JOINS_PER_TURN:
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
        return bool(joining)

    def _slot_row(self, row: Row) -> SlotRow:
        sampling = row.job.request.sampling.over(self._defaults)
        seed = (row.job.seed + row.draw) % 2**63
        return SlotRow(slot=row.slot, seed=seed, pages=row.pages, sampling=sampling)

    def _batch(self) -> list[Row]:
        """Returns the rows of the next launch: as many as its budget of positions and the captured shapes allow."""
        rows = self._filling[:1] if self._alone else self._filling
        lengths = (row.prompt.length - row.filled for row in rows)
        return [rows[i] for i in prompt_batch(lengths, self._positions_per_turn, self._positions)]

    def _launch(self, rows: Sequence[Row]) -> list[int]:
        budget = self._positions
        spans: list[Span] = []
        for row in rows:
            stop = min(row.prompt.length, row.filled + min(budget, self._positions_per_turn))
            budget -= stop - row.filled
            spans.append(Span(row.filled, stop, row.base))
        memory, size = self._memory, self._size(spans)
        batch = memory.rows([row.slot for row in rows])
        with section("prefill"), self._times.measured(size):
            begun = self._run([row.prompt for row in rows], spans, batch, memory.state)
        for row, is_begun in zip(rows, begun or (), strict=False):
            row.first_pass_ran = is_begun
        self._launched_s.append(self._times.expected_s(size))
        return [span.stop for span in spans]

    def _size(self, spans: Sequence[Span]) -> int:
        """Returns how many positions a launch computes: on a GPU those of the shape it is padded to."""
        lengths = [span.stop - span.start for span in spans]
        most = self._positions_per_turn
        return sum(lengths) if self._is_inline else padded_positions(len(lengths), max(lengths), most)

    def _publish(self, row: Row, stop: int) -> None:
        """Offers the pages that are completely filled now for sharing, and notes how far the prompt was run."""
        whole = 0 if row.base else stop // self._memory.page_size
        for page, key in zip(row.pages[:whole], row.keys[:whole], strict=False):  # without keys nothing is shared
            self._memory.pool.publish(page, key)
        row.filled = stop


def prefill_for(
    worker: object, deployment: Deployment, memory: SlotMemory, defaults: Sampling, growth: PageGrowth | None = None
) -> Prefill[Any] | None:
    """Returns the prefill of a stage; None if its worker has no attention over the past.

    With `growth` pages are taken block by block. Without, rows of a crowd start together where the host runs ahead.
    """
    run, is_inline = traits_of(worker).prefill, memory.device.type != "cuda"
    if run is None or not memory.kv:
        return None
    return Prefill(
        run,
        memory,
        defaults,
        deployment.memory.prefill_positions if growth is None else PREFILL_BLOCKS * memory.page_size,
        alone=deployment.deterministic,
        together=growth is None and not is_inline and not deployment.deterministic,
        growth=growth,
        inline=is_inline,
    )
