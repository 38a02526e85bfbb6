"""The memory of a stage on its device: the slot table, paged keys and values, the worker's own state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from rhapsode.device.kv import KVLayout, PagedKV
from rhapsode.device.pages import PagePool
from rhapsode.device.row_writes import RowWrites
from rhapsode.device.slots import Rows, SlotRow, SlotTable
from rhapsode.device.state import State
from rhapsode.device.upload import upload


class SlotMemory:
    """All device memory of a stage. It is allocated once, when the engine starts; requests are given slots in it."""

    def __init__(
        self,
        slots: int,
        layouts: Sequence[KVLayout],
        state: State,
        device: torch.device,
        dtype: torch.dtype,
        *,
        page_size: int = 1,
        pages: int | None = None,
        positions_per_slot: int = 0,
        on_join: Callable[[Tensor], None] | None = None,
    ) -> None:
        """`pages`: how many in all; None: enough for all positions of every slot. Without layouts there are none.

        `on_join`: resets, on the device, whatever else belongs to these slots when requests join.
        """
        self.device = device
        self.page_size = page_size
        self.positions_per_slot = positions_per_slot if layouts else 0
        pages_per_slot = self.pages_for(self.positions_per_slot)
        self.pool = PagePool((pages or slots * pages_per_slot) if layouts else 0)
        self.table = SlotTable(slots, pages_per_slot, device)
        self.kv = tuple(PagedKV(layout, self.pool.total, self.page_size, dtype, device) for layout in layouts)
        self.state = state
        self._on_join = on_join
        self._joins = RowWrites(SlotMemory._join, device)

    def pages_for(self, positions: int) -> int:
        return -(-positions // self.page_size)

    @property
    def most_positions(self) -> int:
        """The most positions that one request can get."""
        return min(self.positions_per_slot, self.pool.total * self.page_size)

    def tensors(self) -> Iterator[Tensor]:
        """Yields every buffer that launches change in place, for the trace on a CPU."""
        yield from self.table.tensors()
        yield from self.state.tensors()
        for kv in self.kv:
            yield from (kv.keys, kv.values)

    def slots(self, slots: Sequence[int]) -> Tensor:
        return upload(np.asarray(slots, np.int64), self.device)

    def rows(self, slots: Tensor | Sequence[int]) -> Rows:
        given = slots if isinstance(slots, Tensor) else np.asarray(slots, np.int64)
        return Rows(given, self.table, self.kv, self.state)

    def join(self, rows: Sequence[SlotRow]) -> None:
        """Gives these slots to new requests, and clears the state of the old ones."""
        self._joins(self, *self.table.columns(rows))

    def give_back(self) -> None:
        """Returns the memory of free pages on a CPU to the system. Of pages that no request owns, but a later one might
        share, as many are kept as one request can have."""
        self.pool.evict(self.pages_for(self.positions_per_slot))
        for start, stop in self.pool.free_runs():
            for kv in self.kv:
                kv.give_back(start, stop)

    def capture(self) -> None:
        """Captures `join` on a GPU, with what belongs to it."""
        scratch = SlotRow(slot=len(self.table.position) - 1)
        self._joins.capture(self, *self.table.columns([scratch]))

    def _join(self, integers: Tensor, floats: Tensor) -> None:
        self.table.write(integers, floats)
        self.state.clear(integers[:, 0])
        if self._on_join is not None:
            self._on_join(integers[:, 0])
