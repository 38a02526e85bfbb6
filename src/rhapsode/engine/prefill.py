"""The way from a prompt to the first step: pages for all a request can need, then its prompt in pieces."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rhapsode.device.memory import SlotMemory
from rhapsode.device.pages import Key, page_keys
from rhapsode.device.sections import section
from rhapsode.device.slots import SlotRow
from rhapsode.engine.job import Job
from rhapsode.engine.stage import isolate
from rhapsode.models.base import Prompt, Talker


@dataclass(eq=False)
class FrameRow:
    """A request in a frame stage."""

    job: Job
    prompt: Prompt
    limit: int
    """Steps after which it is cut."""
    as_wanted: bool = False
    """The user asked for no more than these."""
    part: int = 0
    """Of a text that is spoken in several."""
    keys: list[Key] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    filled: int = 0
    """Prompt positions whose keys and values are there."""

    @property
    def slot(self) -> int:
        return self.job.slot


class Prefill:
    """Rows on their way in, in the order they came; each turn runs a bounded number of prompt positions."""

    def __init__(self, talker: Talker, memory: SlotMemory, positions_per_turn: int, alone: bool) -> None:
        self._talker = talker
        self._memory = memory
        self._positions_per_turn = positions_per_turn
        self._alone = alone  # one row a turn, and no pages of others: what is computed depends on nobody else
        self._waiting: deque[FrameRow] = deque()  # for pages
        self._filling: list[FrameRow] = []

    def add(self, row: FrameRow) -> None:
        row.keys = [] if self._alone else page_keys(row.prompt.content, self._memory.page_size)
        if row.part:
            self._waiting.appendleft(row)  # somebody is listening
        else:
            self._waiting.append(row)

    def remove(self, row: FrameRow) -> None:
        if row in self._waiting:
            self._waiting.remove(row)
        if row in self._filling:
            self._filling.remove(row)

    def turn(self, fail: Callable[[FrameRow, BaseException], None]) -> tuple[list[FrameRow], bool]:
        """Move on; returns the rows that are ready to step, and whether there was anything to do."""
        self._reserve()
        batch = self._batch()
        ready: list[FrameRow] = []
        for rows, stops in isolate(batch, self._launch, fail):
            for row, stop in zip(rows, stops, strict=True):
                self._publish(row, stop)
                if stop == row.prompt.length:
                    self._filling.remove(row)
                    ready.append(row)
        return ready, bool(batch)

    def _reserve(self) -> None:
        """Pages for a request's whole life at once: nobody runs out midway."""
        memory = self._memory
        joining: list[FrameRow] = []
        while self._waiting:
            row = self._waiting[0]
            reserved = memory.pool.reserve(memory.pages_for(row.prompt.length + row.limit), row.keys)
            if reserved is None:
                break
            self._waiting.popleft()
            row.pages, shared = reserved
            row.filled = shared * memory.page_size
            joining.append(row)
        if joining:
            memory.join([self._slot_row(row) for row in joining])
            self._filling += joining

    def _slot_row(self, row: FrameRow) -> SlotRow:
        sampling = row.job.request.sampling.over(self._talker.defaults)
        return SlotRow(row.slot, (row.job.seed + row.part) % 2**63, row.pages, **vars(sampling))

    def _batch(self) -> list[FrameRow]:
        batch: list[FrameRow] = []
        budget = self._positions_per_turn
        for row in self._filling[:1] if self._alone else self._filling:
            if budget <= 0:
                break
            budget -= max(1, row.prompt.length - row.filled)
            batch.append(row)
        return batch

    def _launch(self, rows: Sequence[FrameRow]) -> list[int]:
        budget = self._positions_per_turn
        spans: list[tuple[int, int]] = []
        for row in rows:
            stop = min(row.prompt.length, row.filled + budget)
            budget -= stop - row.filled
            spans.append((row.filled, stop))
        memory = self._memory
        slots = memory.slots([row.slot for row in rows])
        with section("prefill"):
            self._talker.prefill([row.prompt for row in rows], spans, memory.rows(slots), memory.state)
        return [stop for _, stop in spans]

    def _publish(self, row: FrameRow, stop: int) -> None:
        """Whole pages whose content is there can be shared from now on."""
        whole = stop // self._memory.page_size
        for page, key in zip(row.pages[:whole], row.keys[:whole], strict=False):  # without keys nothing is shared
            self._memory.pool.publish(page, key)
        row.filled = stop
