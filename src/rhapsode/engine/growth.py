"""Pages that are taken block by block: which request may join, and which gets the next page.

A request joins with the pages of its prompt. It may join if the pages that are then free suffice for what it and all
running requests are expected to need. Lengths are only estimates, so pages may still run short: then a page is given
only if, in some order, every request can still finish. One of them always can, and its pages let the next one go on. So
requests may have to wait, but none fails for lack of pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhapsode.device.memory import SlotMemory
from rhapsode.engine.row import PromptRow
from rhapsode.errors import GenerationFailed

Ints = NDArray[np.int64]
Need = tuple[int, int]
"""Pages that a request may still need, and pages that it frees when it ends."""


def plan_pages(row: PromptRow, rate: int, most: int, *, grows: bool) -> bool:
    """Sets how many positions a row needs, at most `most`; returns false if not even its prompt and a block fit.

    `rate`: positions per frame. `grows`: pages are taken block by block. Then a row joins with the pages of its prompt
    alone, and the frames that its first block lacks have positions, too.
    """
    prompt, lacking = row.prompt, row.prompt.offset if grows else 0
    usual = prompt.max_frames if prompt.expected_frames is None else prompt.expected_frames
    needed, expected = (prompt.length + rate * (lacking + frames) for frames in (prompt.max_frames, usual))
    row.most = min(most, max(needed, prompt.positions))
    row.expected = min(row.most, expected)
    row.reserve = prompt.length if grows else row.most
    row.used = prompt.length
    return not grows or prompt.length < most


class PageGrowth:
    """Gives the requests of a stage their pages, one block at a time."""

    def __init__(self, memory: SlotMemory) -> None:
        self._memory = memory
        self._rows: list[PromptRow] = []

    def launched(self, rows: Iterable[PromptRow], positions: int) -> None:
        """Counts the positions of the blocks that were launched for these rows."""
        for row in rows:
            row.used += positions

    def reserve(self, row: PromptRow) -> tuple[list[int], int] | None:
        """Returns the pages of a row's prompt, and how many of them are shared; None if the row has to wait."""
        memory, pool = self._memory, self._memory.pool
        count = memory.pages_for(row.reserve)
        free = pool.available - pool.cost(count, row.keys)
        expected = sum(self._expected(other) for other in (*self._rows, row))
        if self._rows and (free < expected or not can_all_finish(free, map(self._need, (*self._rows, row)))):
            return None
        reserved = pool.reserve(count, row.keys)
        if reserved is not None:
            self._rows.append(row)
        return reserved

    def serve(self, rows: Sequence[PromptRow], blocks: Ints, fail: Callable[[Any, BaseException], None]) -> Ints:
        """Returns how many blocks each row can work on: 0 if the row has to wait for the page of its next block."""
        served = blocks.copy()
        most, size = self._memory.most_positions, self._memory.page_size
        for i in np.flatnonzero(blocks).tolist():
            needed = rows[i].used + size
            if needed > most:
                fail(rows[i], GenerationFailed(f"the speech is longer than the {most} positions of one request."))
            if needed > most or not self._extend(rows[i], needed):
                served[i] = 0
        return served

    def _extend(self, row: PromptRow, positions: int) -> bool:
        """Gives a row pages for this many positions in all; returns false if the row has to wait for them."""
        memory, had = self._memory, len(row.pages)
        row.most = max(row.most, positions)  # the speech is longer than planned
        while len(row.pages) < memory.pages_for(positions):
            others = [self._need(other) for other in self._rows if other is not row]
            rest, own = self._need(row)
            free = memory.pool.available - 1
            if free < 0 or not can_all_finish(free, (*others, (rest - 1, own + 1))):
                break
            taken = memory.pool.reserve(1, ())
            assert taken is not None
            row.pages += taken[0]
        if len(row.pages) > had:
            memory.table.add_pages(row.slot, had, row.pages[had:])
        return len(row.pages) >= memory.pages_for(positions)

    def shrink(self, row: PromptRow) -> None:
        """Frees all pages of a row but those of its prompt."""
        kept = self._memory.pages_for(row.reserve)
        self._memory.pool.free(row.pages[kept:])
        row.pages = row.pages[:kept]

    def leave(self, row: PromptRow) -> None:
        """Forgets a row, whose pages are free; calling it twice does no harm."""
        self._rows = [other for other in self._rows if other is not row]

    def _expected(self, row: PromptRow) -> int:
        """Returns how many pages a row will probably still take."""
        rest = self._memory.pages_for(row.expected) - max(len(row.pages), self._memory.pages_for(row.reserve))
        return max(rest, 1)

    def _need(self, row: PromptRow) -> Need:
        prompt = self._memory.pages_for(row.reserve)
        own = max(len(row.pages) - prompt, 0)  # pages of the prompt are not counted: they may be shared
        return max(self._memory.pages_for(row.most) - prompt - own, 0), own


def can_all_finish(free: int, needs: Iterable[Need]) -> bool:
    """Returns whether all requests can get the pages they may need, one after the other (banker's algorithm)."""
    for rest, own in sorted(needs):
        if rest > free:
            return False
        free += own
    return True
