"""Who has which slot of a device stage, and whether anything may be launched for it."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from rhapsode.engine.clock import Ints
from rhapsode.engine.row import PromptRow

Row = TypeVar("Row", bound=PromptRow)


class Seats(Generic[Row]):
    """The row of each slot; a slot has at most one."""

    def __init__(self, slots: int) -> None:
        self._rows: list[Row | None] = [None] * (slots + 1)
        self.live = np.zeros(slots + 1, np.bool_)
        """By slot: whether its row may be launched."""
        self._tenure = np.zeros(slots + 1, np.int64)  # counts the owners of each slot

    def take(self, row: Row) -> None:
        self._rows[row.slot] = row

    def has(self, row: Row) -> bool:
        """Returns whether a row still has its slot: an earlier or a later prompt of the same request may have it."""
        return self._rows[row.slot] is row

    def at(self, slot: int) -> Row:
        row = self._rows[slot]
        assert row is not None
        return row

    def vacate(self, slot: int) -> None:
        """Makes a slot empty: nothing more is launched for its row, and results in flight are ignored."""
        self.live[slot] = False
        self._rows[slot] = None
        self._tenure[slot] += 1

    def live_slots(self) -> Ints:
        return np.flatnonzero(self.live)

    def tenures(self, slots: Ints) -> Ints:
        """Returns how many owners each slot has had. A result that arrives late is compared with it (`still`)."""
        return self._tenure[slots]

    def still(self, slots: Ints, tenures: Ints) -> NDArray[np.bool_]:
        """Returns, for each slot, whether it has the owner of these `tenures`, and that one is live."""
        same: NDArray[np.bool_] = self.live[slots] & (self._tenure[slots] == tenures)
        return same
