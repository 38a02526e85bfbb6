"""The launches of a device stage: what each works on, and what has come back from them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.landing import LANDING_S, Landing
from rhapsode.engine.clock import Ints
from rhapsode.engine.seats import Seats

RAGGED_COLUMNS = 5
"""Columns of the inputs of a stage that works on other numbers of frames in each row."""


@dataclass(frozen=True)
class Launch:
    """What one launch works on: `inputs` has a row for each request, `statics` are the sizes of its captured graph."""

    inputs: Ints  # [B, columns], the first is the slot
    statics: tuple[int, ...] = ()

    @property
    def slots(self) -> Ints:
        return self.inputs[:, 0]

    def ragged(self) -> tuple[Ints, Ints]:
        """Returns two numbers for each row: the frames its first block lacks, and the frames the launch works on."""
        if self.inputs.shape[1] == 1:
            return np.zeros_like(self.slots), np.full_like(self.slots, self.statics[0])
        return self.inputs[:, 1], self.inputs[:, 2]

    def heard(self) -> Ints:
        """Returns how many of these frames of each row are heard: the others are the last ones of a segment."""
        return self.ragged()[1] if self.inputs.shape[1] == 1 else self.inputs[:, RAGGED_COLUMNS - 1]

    @property
    def frames(self) -> int:
        """How many frames the launch works on, in all rows together."""
        return len(self.inputs) * (self.statics[0] if self.statics else 1)


class Landed(NamedTuple):
    """The results of a launch, on the host."""

    launch: Launch
    current: NDArray[np.bool_]
    """For each row, whether its request is still here."""
    values: NDArray[Any]


class _InFlight(NamedTuple):
    launch: Launch
    tenures: Ints
    values: Landing


class Launches:
    """The launches in flight, oldest first. Their results arrive in this order."""

    def __init__(self, seats: Seats[Any]) -> None:
        self._seats = seats
        self._in_flight: deque[_InFlight] = deque()
        self._landed = 0

    def __len__(self) -> int:
        return len(self._in_flight)

    @property
    def oldest(self) -> int | None:
        """The number of the oldest launch that has not landed; None if there is none."""
        return self._landed if self._in_flight else None

    @property
    def poll_s(self) -> float | None:
        return LANDING_S if self._in_flight else None

    def add(self, launch: Launch, values: Tensor) -> None:
        """Notes a launch, and starts to copy what it returns to the host."""
        self._in_flight.append(_InFlight(launch, self._seats.tenures(launch.slots), Landing(values)))

    def landed(self) -> Iterator[Landed]:
        """Yields the results that have arrived, without waiting for others."""
        while self._in_flight and self._in_flight[0].values.ready():
            launch, tenures, values = self._in_flight.popleft()
            self._landed += 1
            yield Landed(launch, self._seats.still(launch.slots, tenures), values.numpy())
            values.end()
