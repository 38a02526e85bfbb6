"""The slot table: counters, page tables and sampling parameters of every running request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.kv import SCRATCH_PAGE, PagedKV
from rhapsode.device.state import State, buffer
from rhapsode.device.upload import upload


@dataclass(frozen=True)
class SlotRow:
    """One request's entry in the slot table when it joins."""

    slot: int
    seed: int
    pages: Sequence[int]
    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float


class SlotTable(State):
    """Positions, page tables, seeds and sampling parameters, one row per slot, on the device."""

    def __init__(self, slots: int, pages_per_slot: int, device: torch.device) -> None:
        def ints(*shape: int) -> Tensor:
            return buffer(slots, *shape, dtype=torch.int64, device=device)

        def floats() -> Tensor:
            return buffer(slots, device=device)

        self.position = ints()  # KV positions filled so far
        self.step = ints()  # frames stepped so far: the RNG's counter
        self.seed = ints()
        self.pages = ints(pages_per_slot)
        self.top_k = ints()
        self.temperature = floats()
        self.top_p = floats()
        self.repetition_penalty = floats()

    @property
    def device(self) -> torch.device:
        return self.position.device

    def join(self, rows: Sequence[SlotRow]) -> None:
        """Enters new requests: two uploads, however many rows."""
        whole = np.full((len(rows), 3 + self.pages.shape[1]), SCRATCH_PAGE, np.int64)
        for entry, row in zip(whole, rows, strict=True):
            entry[:3] = row.slot, row.seed, row.top_k
            entry[3 : 3 + len(row.pages)] = row.pages
        parts = np.array([(row.temperature, row.top_p, row.repetition_penalty) for row in rows], np.float32)
        integers, floats = upload(whole, self.device), upload(parts, self.device)
        slots = integers[:, 0]
        for counter in (self.position, self.step):
            counter.index_fill_(0, slots, 0)  # `counter[slots] = 0` would wait for everything launched before
        self.seed[slots], self.top_k[slots], self.pages[slots] = integers[:, 1], integers[:, 2], integers[:, 3:]
        self.temperature[slots], self.top_p[slots] = floats[:, 0], floats[:, 1]
        self.repetition_penalty[slots] = floats[:, 2]

    def add_pages(self, slot: int, start: int, pages: Sequence[int]) -> None:
        """Enters further pages of a request, from place `start` of its page table on."""
        self.pages[slot, start : start + len(pages)] = upload(np.asarray(pages, np.int64), self.device)

    def place(self, slots: NDArray[np.int64], positions: NDArray[np.int64], steps: NDArray[np.int64]) -> None:
        """Sets the counters of these slots."""
        where = upload(slots, self.device)
        self.position[where] = upload(positions, self.device)
        self.step[where] = upload(steps, self.device)

    def advance(self, slots: Tensor, frames: Tensor | int = 1, positions_per_frame: int = 1) -> None:
        """Moves these rows on by so many frames; the scratch row stays where it is."""
        self.position[slots] += frames * positions_per_frame
        self.step[slots] += frames
        self.position[-1].zero_()
        self.step[-1].zero_()


@dataclass(frozen=True)
class Rows:
    """The batch of one launch: its slots, and the tables they index. Valid for that launch only."""

    slots: Tensor  # [B]
    table: SlotTable
    kv: tuple[PagedKV, ...] = ()

    @property
    def scratch(self) -> int:
        """The slot that padding rows use."""
        return len(self.table.position) - 1

    @property
    def positions(self) -> Tensor:
        return self.table.position[self.slots]

    @property
    def steps(self) -> Tensor:
        return self.table.step[self.slots]

    @property
    def seeds(self) -> Tensor:
        return self.table.seed[self.slots]

    @property
    def pages(self) -> Tensor:
        return self.table.pages[self.slots]
