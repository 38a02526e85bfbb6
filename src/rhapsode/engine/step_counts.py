"""How far the talker is with each slot: what the host decides with, as vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rhapsode.engine.clock import Ints
from rhapsode.engine.row import FrameRow

Bools = NDArray[np.bool_]


class StepCounts:
    """Steps of the prompt that each slot has now: launched, ended, allowed by its text so far, and at most."""

    def __init__(self, slots: int) -> None:
        self._launched, self._done, self._allowed, self._limit = np.zeros((4, slots + 1), np.int64)
        self._has_frames = np.zeros(slots + 1, np.bool_)

    def begin(self, rows: Sequence[FrameRow]) -> None:
        slots = np.array([row.slot for row in rows])
        self._launched[slots] = self._done[slots] = 0
        self._has_frames[slots] = False
        self._limit[slots] = [row.limit for row in rows]
        self._allowed[slots] = [row.steps_allowed for row in rows]

    def allow(self, row: FrameRow) -> None:
        """Notes that more text of a row has come."""
        self._allowed[row.slot] = row.steps_allowed

    def able(self) -> Bools:
        """Returns, for each slot, whether its text and its limit allow another step."""
        able: Bools = self._launched < np.minimum(self._allowed, self._limit)
        return able

    def are_new(self, slots: Ints) -> Bools:
        """Returns for which of these slots no step was launched."""
        new: Bools = self._launched[slots] == 0
        return new

    def launch(self, slots: Ints) -> None:
        self._launched[slots] += 1

    def done(self, slot: int) -> int:
        return int(self._done[slot])

    def land(self, slots: Ints, heard: Bools) -> tuple[Ints, Bools]:
        """Notes that a step has ended, and for which slots it made a frame. Returns the slots whose first frame this
        is, and for each slot whether this was its last step."""
        self._done[slots] += 1
        first = slots[heard & ~self._has_frames[slots]]
        self._has_frames[first] = True
        return first, self._done[slots] >= self._limit[slots]
