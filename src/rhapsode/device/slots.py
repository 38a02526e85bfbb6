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
        """Enters new requests: one upload per column, however many rows."""
        slots = self._upload([r.slot for r in rows], torch.int64)
        self.position[slots] = 0
        self.step[slots] = 0
        for column in ("seed", "top_k", "temperature", "top_p", "repetition_penalty"):
            target: Tensor = getattr(self, column)
            target[slots] = self._upload([getattr(r, column) for r in rows], target.dtype)
        width = self.pages.shape[1]
        padded = [[*r.pages, *[SCRATCH_PAGE] * (width - len(r.pages))] for r in rows]
        self.pages[slots] = self._upload(padded, torch.int64)

    def add_pages(self, slot: int, start: int, pages: Sequence[int]) -> None:
        """Enters further pages of a request, from place `start` of its page table on."""
        self.pages[slot, start : start + len(pages)] = self._upload(pages, torch.int64)

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

    def _upload(self, values: object, dtype: torch.dtype) -> Tensor:
        return upload(torch.tensor(values, dtype=dtype).numpy(), self.device)


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
