"""Chunk policies: which rows a streaming stage works on next, and on how much of each."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rhapsode.config import ChunkConfig
from rhapsode.engine.clock import Ints, ListenerClock, Seconds
from rhapsode.engine.pace import Pace
from rhapsode.engine.schedule import ChunkSchedule
from rhapsode.engine.turn_order import TurnOrder

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Ready:
    """The rows a stage can choose from, and how many blocks of each are ready."""

    slots: Ints
    blocks: Ints
    closing: Bools
    """No further block will come before the row's next mark or its end."""
    crowded: Bools
    """The row's ring is nearly full: its producer is about to wait."""
    joining: int = 0
    """How many further requests have no frames yet, but will soon need their share of the time."""

    @property
    def listeners(self) -> int:
        return len(self.slots) + self.joining


@dataclass(frozen=True)
class Choice:
    """One launch: these slots, and this many blocks of each."""

    slots: Ints
    blocks: int


class ChunkPolicy(Protocol):
    """Chooses what a streaming stage does next."""

    def open(self, slot: int, first_frames: int | None) -> None:
        """Called when a request gets a slot. `first_frames`: the size of the first chunk that it asked for, or None."""

    def choose(self, ready: Ready, most: int) -> Choice | None:
        """Returns the next launch, of at most `most` rows; None if there is nothing to do now."""

    def launched(self, choice: Choice) -> None:
        """Called after a choice was launched. The listeners' clock counts its audio already."""


class GpuPolicy:
    """For devices that work while the host goes on: fills batches, and avoids underruns.

    A row is due when its next chunk is complete. It is urgent when the rest of the chunk, at the pace of its blocks so
    far, would come too late for its listener: then the chunk is cut to the blocks that are ready. While all listeners
    have plenty to play, a launch waits for more rows. If the talker is hardly faster than playback, or has many prompts
    to run, first chunks are larger, so that they last until the next chunk. And rows that start together get first
    chunks of all the blocks they have in common: a stage whose source makes a second of audio at a time need not begin
    with a fraction of it.

    These launches have priority over the talker's on the device. So between two frames of the talker, at most two
    launches are for listeners who can wait. Otherwise the last chunks of many requests, which no listener needs yet,
    would delay the frames of new requests by 0.2 seconds.
    """

    MOST_FIRST, MOST_FIRST_S = 4, 0.32
    """The most blocks that a first chunk waits for, unless the request asks for more: `MOST_FIRST`, or as many as play
    for `MOST_FIRST_S` if these are more."""
    BUSY = 0.15
    """From this real-time factor of the talker on, listeners need larger first chunks."""
    PROMPT_S = 0.0005
    """How long the prompt of one joining request delays the frames of the others, as one of many in a launch."""
    SOON_S = 0.065
    """A listener who runs out of audio within this time gets the blocks that are ready, before listeners who have heard
    nothing yet. Under load, a chunk can take more than 50 ms from here to the client."""
    SECOND_S = 0.16
    """Seconds of audio that must be made while a first chunk plays. The second chunk may be planned larger: a listener
    who would underrun soon gets the blocks that are ready."""
    YIELDS_ABOVE_S = 0.25
    """A launch whose listeners all have more than this left yields to the talker."""
    MOST_BETWEEN_FRAMES = 2
    """Such a launch yields once this many launches have followed the talker's last frame."""
    SPARE = 2.0
    """A first chunk must last longer than the second one takes, by this many times `patience_s`: under load, audio is
    also sent late."""

    def __init__(
        self,
        slots: int,
        schedule: ChunkSchedule,
        config: ChunkConfig,
        block_s: float,
        clock: ListenerClock,
        pace: Pace | None = None,
    ) -> None:
        """`schedule`: which sizes chunks may have. `block_s`: how long a block plays. `clock`: how much audio each
        listener has left. `pace`: how fast the talker is, measured while it runs."""
        self._pace = pace or Pace()
        self._schedule = schedule
        self._config = config
        self._block_s = block_s
        self._clock = clock
        self._next = np.zeros(slots + 1, np.int64)  # blocks of the next chunk
        self._since_s = np.zeros(slots + 1, np.float64)  # when the blocks of the next chunk began to arrive
        self._asked = np.zeros(slots + 1, np.bool_)  # whether the request asked for a first chunk of this size
        self._most_first = max(self.MOST_FIRST, self._lasting(self.MOST_FIRST_S))
        self._steps = deque([-1] * self.MOST_BETWEEN_FRAMES, self.MOST_BETWEEN_FRAMES)
        """The talker's number of steps at each of the last launches."""

    def _lasting(self, seconds: float) -> int:
        """Converts seconds of audio to the nearest number of blocks."""
        return round(seconds / self._block_s)

    def open(self, slot: int, first_frames: int | None) -> None:
        self._next[slot] = self._schedule.asked(first_frames) if first_frames else self._schedule.first
        self._since_s[slot] = 0.0
        self._asked[slot] = first_frames is not None

    def launched(self, choice: Choice) -> None:
        self._steps.append(self._pace.steps)
        self._since_s[choice.slots] = self._clock.now_s()
        # A chunk that was cut short because it was urgent does not make the next ones small: many small launches
        # would cost the time that was lacking.
        self._next[choice.slots] = np.maximum(self._next[choice.slots], self._schedule.after(choice.blocks))

    def choose(self, ready: Ready, most: int) -> Choice | None:
        slots, now_s = ready.slots, self._clock.now_s()
        self._since_s[slots[(ready.blocks > 0) & (self._since_s[slots] == 0)]] = now_s
        left_s = self._clock.left_s(slots)
        wanted = self._wanted(ready, left_s)
        due = ready.blocks >= np.where(ready.closing, 1, self._due(slots, wanted))
        able = np.flatnonzero(due | self._urgent(ready, wanted, left_s, now_s))
        if not len(able):
            return None
        needed_in_s = np.where(self._clock.begun(slots), left_s, self._first_in_s())
        able = able[np.argsort(needed_in_s[able], kind="stable")]
        leader = able[0]
        size = max(int(wanted[leader]), self._common(ready, able))
        blocks = self._schedule.fit(min(int(ready.blocks[leader]), size, self._schedule.largest))
        rows = able[self._joins(ready, wanted, blocks)[able]][:most]
        if left_s[leader] > self._config.comfort_s and self._can_wait(ready, rows, most):
            return None
        choice = Choice(slots[rows], blocks)
        return None if self._yields(ready, choice) else choice

    def _yields(self, ready: Ready, choice: Choice) -> bool:
        """Returns whether a launch has to wait for the talker's next frame."""
        if not self._pace.is_working or self._steps[0] != self._pace.steps:
            return False
        has_time = self._clock.left_s(choice.slots[:1])[0] > self.YIELDS_ABOVE_S  # the first row has the least left
        return bool(has_time and not ready.crowded[np.isin(ready.slots, choice.slots)].any())

    def _common(self, ready: Ready, able: Ints) -> int:
        """Returns how many blocks all rows that start now have in common; 0 if the first of `able` does not start."""
        starts = able[~self._clock.begun(ready.slots[able]) & ~self._asked[ready.slots[able]]]
        if not len(starts) or starts[0] != able[0]:
            return 0
        going_on = starts[~ready.closing[starts]]  # a row that ends early must not make the others' chunks small
        return int(ready.blocks[going_on].min()) if len(going_on) else 0

    def _can_wait(self, ready: Ready, rows: Ints, most: int) -> bool:
        full = len(rows) >= min(len(ready.slots), most)
        return not (full or ready.closing[rows].any() or ready.crowded[rows].any())

    def _wanted(self, ready: Ready, left_s: Seconds) -> Ints:
        """Returns how many blocks each row's next chunk should have."""
        slots = ready.slots
        wanted, block_s = self._next[slots], self._block_wait_s(ready)
        if not block_s:
            return wanted
        first = np.where(self._asked[slots], wanted, np.maximum(wanted, self._first(block_s)))
        return np.where(self._clock.begun(slots), wanted, first)

    def _first(self, block_wait_s: float) -> int:
        """Returns how many blocks the first chunk needs, so that it lasts until the second one arrives.

        `block_wait_s`: how long it takes until every listener has one more block.
        """
        schedule, spare_s = self._schedule, self.SPARE * self._config.patience_s
        lasting = (n for n in schedule.ladder if n * self._block_s >= block_wait_s * self._second(n) + spare_s)
        return min(next(lasting, self._most_first), self._most_first, schedule.largest)

    def _due(self, slots: Ints, wanted: Ints) -> Ints:
        """Returns how many blocks must be ready before each row's next chunk is decoded."""
        return wanted

    def _second(self, first: int) -> float:
        """Returns how many blocks a listener needs before a first chunk of this size has been played."""
        return max(1.0, self.SECOND_S / self._block_s)

    def _block_wait_s(self, ready: Ready) -> float:
        """Returns the seconds until all listeners have one more block; 0 if that is so soon that none underruns."""
        return self._talker_s(ready)

    def _talker_s(self, ready: Ready) -> float:
        """Returns the seconds until the talker has made one more block for every listener; 0 if that is very soon."""
        if not self._pace.known:
            return 0.0
        prompts_s = min(ready.joining * self.PROMPT_S, TurnOrder.MOST_S)
        block_s = self._pace.at(ready.listeners) * self._block_s + prompts_s
        return block_s if block_s > self.BUSY * self._block_s else 0.0

    def _joins(self, ready: Ready, wanted: Ints, blocks: int) -> Bools:
        """Returns, for each row, whether it can take part in a launch of this size."""
        return ready.blocks >= blocks

    def _urgent(self, ready: Ready, wanted: Ints, left_s: Seconds, now_s: float) -> Bools:
        slots, patience_s = ready.slots, self._config.patience_s
        waited_s = now_s - self._since_s[slots]
        rest_in_s = waited_s * (wanted - ready.blocks) / np.maximum(ready.blocks, 1) + self._launch_s() * wanted
        late = rest_in_s > np.maximum(left_s - patience_s, patience_s)
        late |= (left_s > 0) & (left_s < self.SOON_S)
        larger_s = patience_s + self._talker_s(ready) * (wanted - self._next[slots])
        enough = (ready.blocks >= self._next[slots]) & (waited_s > larger_s)  # of a first chunk that was made larger
        return (ready.blocks > 0) & np.where(self._clock.begun(slots), late, enough)

    def _first_in_s(self) -> float:
        """Returns how soon first chunks are needed: listeners who run out of audio before go first."""
        return self.SOON_S

    def _launch_s(self) -> float:
        """Returns the seconds for which all other listeners wait while one block of one row is decoded."""
        return 0.0


class FixedPolicy(GpuPolicy):
    """For deterministic mode: each row's chunks follow the schedule, whatever the clock and the other rows do."""

    def _urgent(self, ready: Ready, wanted: Ints, left_s: Seconds, now_s: float) -> Bools:
        return np.zeros(len(ready.slots), np.bool_)

    def _common(self, ready: Ready, able: Ints) -> int:
        return 0

    def _joins(self, ready: Ready, wanted: Ints, blocks: int) -> Bools:
        fits = [n > 0 and self._schedule.fit(n) == blocks for n in np.minimum(ready.blocks, wanted).tolist()]
        return np.asarray(fits, np.bool_)


class RelayPolicy:
    """For a stage in the middle of a chain: works on every complete block, for the most urgent listener first."""

    def __init__(self, schedule: ChunkSchedule, clock: ListenerClock, one_block: bool) -> None:
        self._schedule = schedule
        self._clock = clock
        self._one_block = one_block

    def open(self, slot: int, first_frames: int | None) -> None:
        """Does nothing: this policy treats all requests alike."""

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
