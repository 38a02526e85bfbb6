"""Plans the launches of a stage in the middle of a chain, whose output no listener hears."""

from __future__ import annotations

import numpy as np

from rhapsode.engine.clock import ListenerClock
from rhapsode.engine.planner import Choice, Ready
from rhapsode.engine.schedule import ChunkSchedule


class RelayPlanner:
    """Works on every complete block, for the most urgent listener first."""

    def __init__(self, schedule: ChunkSchedule, clock: ListenerClock, one_block: bool) -> None:
        self._schedule = schedule
        self._clock = clock
        self._one_block = one_block

    def open(self, slot: int, first_frames: int | None) -> None:
        """Does nothing: all requests are treated alike."""

    def launched(self, choice: Choice) -> None:
        """Does nothing: the next choice does not depend on this one."""

    def choose(self, ready: Ready, most: int) -> Choice | None:
        able = np.flatnonzero(ready.blocks > 0)
        if not len(able):
            return None
        able = able[np.argsort(self._clock.left_s(ready.slots[able]), kind="stable")]
        whole = 1 if self._one_block else min(int(ready.blocks[able[0]]), self._schedule.largest)
        blocks = self._schedule.fit(whole)
        return Choice(ready.slots[able[ready.blocks[able] >= blocks][:most]], blocks)
