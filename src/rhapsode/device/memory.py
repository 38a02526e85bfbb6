"""Everything a stage keeps on its device: the slot table, paged keys and values, the worker's own state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from rhapsode.config import Deployment
from rhapsode.device.kv import KVLayout, PagedKV
from rhapsode.device.pages import PagePool
from rhapsode.device.slots import Rows, SlotRow, SlotTable
from rhapsode.device.state import State
from rhapsode.device.upload import upload


class SlotMemory:
    """Allocated once, when the engine starts; requests come and go in it."""

    def __init__(
        self,
        layouts: Sequence[KVLayout],
        state: State,
        deployment: Deployment,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        slots, memory = deployment.limits.slots, deployment.memory
        self.device = device
        self.page_size = memory.page_size
        self.positions_per_slot = deployment.limits.max_positions
        pages_per_slot = self.pages_for(self.positions_per_slot)
        self.pool = PagePool(memory.pages or slots * pages_per_slot)
        self.table = SlotTable(slots, pages_per_slot, device)
        self.kv = tuple(PagedKV(layout, self.pool.total, self.page_size, dtype, device) for layout in layouts)
        self.state = state

    def pages_for(self, positions: int) -> int:
        return -(-positions // self.page_size)

    @property
    def most_positions(self) -> int:
        """The most that one request can ever get."""
        return min(self.positions_per_slot, self.pool.total * self.page_size)

    def tensors(self) -> Iterator[Tensor]:
        """All that changes from frame to frame."""
        yield from self.table.tensors()
        yield from self.state.tensors()
        for kv in self.kv:
            yield from (kv.keys, kv.values)

    def slots(self, slots: Sequence[int]) -> Tensor:
        return upload(np.asarray(slots, np.int64), self.device)

    def rows(self, slots: Tensor) -> Rows:
        return Rows(slots, self.table, self.kv)

    def join(self, rows: Sequence[SlotRow]) -> None:
        """New owners for these slots: nothing of the old ones stays."""
        self.table.join(rows)
        self.state.clear(self.slots([row.slot for row in rows]))
