"""The blocks of frames that a streaming stage works on: where they begin, and how many have arrived."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rhapsode.device.reach import Reach
from rhapsode.device.stream import FrameStream
from rhapsode.engine.clock import Ints
from rhapsode.engine.launches import Launch
from rhapsode.engine.planner import Choice

SHORT_S = 0.16
"""With many listeners on a CPU, chunks play no longer than this."""


class BlockGrid:
    """For every slot, the frame at which its next block begins. A first block may begin before the first frame."""

    def __init__(self, slots: int, source: FrameStream, reach: Reach) -> None:
        self._source = source
        self._reach = reach
        self._at = np.zeros(slots + 1, np.int64)
        self._seen = np.zeros(slots + 1, np.int64)
        self.kept_ahead = reach.lookahead if reach.incremental else 0
        """Frames of look-ahead that the worker has seen after each launch."""

    def begin(self, slot: int, frame: int) -> None:
        """Sets the frame at which the next block of this slot begins."""
        self._at[slot] = frame

    def forget(self, slot: int) -> None:
        """Notes that the worker keeps no look-ahead of this slot any more."""
        self._seen[slot] = 0

    def keeps(self, slot: int) -> bool:
        """Whether the worker keeps look-ahead of this slot."""
        return bool(self._seen[slot])

    def whole(self, live: Ints, available: Ints, closing: NDArray[np.bool_]) -> Ints:
        """Returns how many blocks of each slot are ready. If a slot is `closing`, its last block need not be whole."""
        size, skip = self._reach.granularity, self._source.consumed(live) - self._at[live]
        complete = np.maximum(available - self._reach.lookahead + skip, 0) // size
        blocks: Ints = np.where(closing, -(-(available + skip) // size), complete) * (available > 0)
        return blocks

    def launch(self, choice: Choice) -> Launch:
        """Returns the launch of a choice, limited to rows with as much look-ahead seen as the most urgent row."""
        seen = int(self._seen[choice.slots[0]])
        slots, due = choice.slots[self._seen[choice.slots] == seen], choice.blocks * self._reach.granularity
        if self._reach.plain:
            return Launch(slots[:, None], (due, 0))
        available = self._source.available(slots)
        skip = self._source.consumed(slots) - self._at[slots]
        counts = np.clip(due - skip, 0, available)
        ahead = np.minimum(available - counts, self._reach.lookahead)
        heard = np.clip(available - self._reach.unheard, 0, counts)
        return Launch(np.stack([slots, skip, counts, ahead, heard], axis=1), (due, seen))

    def is_usual(self, launch: Launch, frame_s: float) -> bool:
        """Returns whether a launch costs what it does with many listeners: chunks are short then, and a talker works
        beside it. `frame_s`: how long a frame plays."""
        most = max(self._reach.granularity, round(SHORT_S / frame_s))
        return launch.statics[0] <= most and not self._source.closing(launch.slots).all()

    def launched(self, launch: Launch) -> None:
        self._seen[launch.slots] = self.kept_ahead
        self._at[launch.slots] += launch.statics[0]
