"""The slot table: counters, page tables and sampling parameters of every running request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.kv import SCRATCH_PAGE, PagedKV
from rhapsode.device.packed import upload_all
from rhapsode.device.state import State, buffer
from rhapsode.device.upload import upload
from rhapsode.sampling_table import PARAMETERS, WITHOUT_EFFECT, Sampling

INTEGER_PARAMETERS = tuple(parameter.name for parameter in PARAMETERS if parameter.kind is int)
INTEGERS = {name: i for i, name in enumerate(("position", "step", "seed", *INTEGER_PARAMETERS))}
FLOATS = {name: i for i, name in enumerate(parameter.name for parameter in PARAMETERS if parameter.kind is float)}
"""The columns of the slot table by their names."""
FIRST_PAGE = 1 + len(INTEGERS)
"""In what is written for a new request: the slot comes first, then the integers, then the pages."""


@dataclass(frozen=True, kw_only=True)
class SlotRow:
    """One request's entry in the slot table when it joins."""

    slot: int
    seed: int = 0
    pages: Sequence[int] = ()
    sampling: Sampling = WITHOUT_EFFECT
    """Every parameter has a value."""


class _Column:
    """A column of a slot table or of a batch, as an attribute of its name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, table: SlotTable | Rows, owner: type) -> Tensor:
        return table.column(self._name)


class SlotTable(State):
    """Positions, page tables, seeds and sampling parameters, one row per slot, on the device."""

    def __init__(self, slots: int, pages_per_slot: int, device: torch.device) -> None:
        def ints(*shape: int) -> Tensor:
            return buffer(slots, *shape, dtype=torch.int64, device=device)

        def floats(*shape: int) -> Tensor:
            return buffer(slots, *shape, device=device)

        # Numbers of one type are columns of one matrix, so that a launch reads all of them with one kernel.
        self.integers = ints(len(INTEGERS))
        self.floats = floats(len(FLOATS))
        self.pages = ints(pages_per_slot)

    position, step, seed = _Column(), _Column(), _Column()
    """KV positions filled so far; frames stepped so far, which is the RNG's counter; the RNG's key."""
    temperature, top_k, top_p, repetition_penalty = _Column(), _Column(), _Column(), _Column()

    def column(self, name: str) -> Tensor:
        """Returns a counter or a sampling parameter, [slots + 1]."""
        return self.floats[:, FLOATS[name]] if name in FLOATS else self.integers[:, INTEGERS[name]]

    @property
    def device(self) -> torch.device:
        return self.integers.device

    def join(self, rows: Sequence[SlotRow]) -> None:
        """Writes the seeds, sampling settings and pages of new requests into their slots; their counters begin at 0."""
        self.write(*upload_all(self.columns(rows), self.device))

    def columns(self, rows: Sequence[SlotRow]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Returns the arguments of `write` for new requests, with a row for each."""
        integers = np.full((len(rows), FIRST_PAGE + self.pages.shape[1]), SCRATCH_PAGE, np.int64)
        sampling = [vars(row.sampling) for row in rows]
        integers[:, :FIRST_PAGE] = [
            (row.slot, 0, 0, row.seed, *(values[name] for name in INTEGER_PARAMETERS))
            for row, values in zip(rows, sampling, strict=True)
        ]
        for entry, row in zip(integers, rows, strict=True):
            if row.pages:
                entry[FIRST_PAGE : FIRST_PAGE + len(row.pages)] = row.pages
        floats = np.array([[values[name] for name in FLOATS] for values in sampling], np.float32)
        return integers, floats

    def write(self, integers: Tensor, floats: Tensor) -> None:
        """On the device: writes what `columns` returned into the slots of new requests."""
        slots = integers[:, 0]
        self.integers[slots], self.pages[slots] = integers[:, 1:FIRST_PAGE], integers[:, FIRST_PAGE:]
        self.floats[slots] = floats

    def add_pages(self, slot: int, start: int, pages: Sequence[int]) -> None:
        """Adds further pages to a request's page table, from index `start` on."""
        self.pages[slot, start : start + len(pages)] = upload(np.asarray(pages, np.int64), self.device)

    def place(self, slots: NDArray[np.int64], positions: NDArray[np.int64], steps: NDArray[np.int64]) -> None:
        """Sets the position and the step of each of these slots."""
        self.write_counters(*upload_all((slots, positions, steps), self.device))

    def write_counters(self, slots: Tensor, positions: Tensor, steps: Tensor) -> None:
        """On the device: sets the position and the step of each of these slots."""
        self.position[slots], self.step[slots] = positions, steps

    def advance(self, slots: Tensor, frames: Tensor | int = 1, positions_per_frame: int = 1) -> None:
        """Advances the counters of these slots by this many frames. The scratch row, which padding uses, stays at 0."""
        counters = self.integers[:, :2]  # position and step
        if positions_per_frame == 1:
            counters[slots] += frames[:, None] if isinstance(frames, Tensor) else frames
        else:
            self.position[slots] += frames * positions_per_frame
            self.step[slots] += frames
        counters[-1].zero_()


class Rows:
    """The batch of one launch: its slots, and the tables they index.

    Valid for that launch only: positions, steps, seeds and sampling parameters are read once, when they are first used.
    """

    def __init__(
        self,
        slots: Tensor | NDArray[np.int64],
        table: SlotTable,
        kv: tuple[PagedKV, ...] = (),
        state: Any = None,
    ) -> None:
        """`slots [B]`: an array is copied to the device when it is needed there. `state` is the worker's own."""
        self._given = slots
        self.table = table
        self.kv = kv
        self.state = state

    @cached_property
    def slots(self) -> Tensor:
        """The slots on the device, [B], contiguous: kernels read them as an array."""
        return self._given.contiguous() if isinstance(self._given, Tensor) else upload(self._given, self.table.device)

    @cached_property
    def host_slots(self) -> NDArray[np.int64]:
        """The slots on the host, [B]. Waits for the GPU if the slots were given as a tensor there."""
        return self._given.cpu().numpy() if isinstance(self._given, Tensor) else self._given

    @property
    def on_host(self) -> bool:
        """Whether `host_slots` can be read without waiting for the GPU."""
        return not (isinstance(self._given, Tensor) and self._given.is_cuda)

    def some(self, which: Sequence[int]) -> Rows:
        """Returns some of these rows, by their index in the batch."""
        index = np.asarray(which, np.int64)
        given = self._given
        chosen = given[upload(index, given.device)] if isinstance(given, Tensor) else given[index]
        return Rows(chosen, self.table, self.kv, self.state)

    @property
    def scratch(self) -> int:
        """The slot that padding rows use."""
        return len(self.table.position) - 1

    @cached_property
    def _integers(self) -> Tensor:
        return self.table.integers.T.index_select(1, self.slots)  # [numbers, B]: each number's values are contiguous

    @cached_property
    def _floats(self) -> Tensor:
        return self.table.floats.T.index_select(1, self.slots)

    temperature, top_k, top_p, repetition_penalty = _Column(), _Column(), _Column(), _Column()

    @property
    def positions(self) -> Tensor:
        return self.column("position")

    @property
    def steps(self) -> Tensor:
        return self.column("step")

    @property
    def seeds(self) -> Tensor:
        return self.column("seed")

    def column(self, name: str) -> Tensor:
        """Returns a counter or a sampling parameter of each row, [B]."""
        return self._floats[FLOATS[name]] if name in FLOATS else self._integers[INTEGERS[name]]

    @property
    def pages(self) -> Tensor:
        return self.table.pages[self.slots]
