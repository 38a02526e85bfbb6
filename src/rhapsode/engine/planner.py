"""Plans the launches of streaming stages: which rows they work on next, and on how much of each."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rhapsode.config import ChunkConfig
from rhapsode.engine.clock import Ints, ListenerClock, Seconds
from rhapsode.engine.costs import ChunkCosts
from rhapsode.engine.goals import ChunkGoals
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


class Planner(Protocol):
    """Chooses what a streaming stage does next."""

    def open(self, slot: int, first_frames: int | None) -> None:
        """Called when a request gets a slot. `first_frames`: the size of the first chunk that it asked for, or None."""

    def choose(self, ready: Ready, most: int) -> Choice | None:
        """Returns the next launch, of at most `most` rows; None if there is nothing to do now."""

    def launched(self, choice: Choice) -> None:
        """Called after a choice was launched. The listeners' clock counts its audio already."""


class _Listeners(NamedTuple):
    """What the listeners of ready rows have, row by row."""

    left_s: Seconds
    """Seconds of audio they have left. Negative: none since so long."""
    begun: Bools
    """They have heard something."""
    frame_s: float
    """The seconds until the talker has made one more block for all of them; 0 if that is very soon."""


class ChunkPlanner:
    """Plans the chunks of a stage that listeners hear: avoids underruns, and fills launches. `choose` is all of it.

    1. Every row has a wanted size for its next chunk: as the schedule grows, less if all listeners together cannot wait
       for that, and more for a first chunk that must last until the second one has come.
    2. A row can be served when that much is ready (it is due), or when waiting for the rest would be too late for its
       listener (it is urgent).
    3. The listener who needs audio first decides the size of the launch. The others join if they have as much.
    4. A launch for listeners who have plenty waits for more rows, or for the talker's next frame.
    5. A device that works on one launch at a time gets one that is so short that all other listeners can wait for it.
    """

    def __init__(
        self,
        slots: int,
        schedule: ChunkSchedule,
        config: ChunkConfig,
        goals: ChunkGoals,
        costs: ChunkCosts,
        clock: ListenerClock,
    ) -> None:
        """`schedule`: which sizes chunks may have. `clock`: how much audio each listener has left."""
        self._schedule, self._config = schedule, config
        self._goals, self._costs, self._clock = goals, costs, clock
        self._next = np.zeros(slots + 1, np.int64)  # blocks of the next chunk
        self._since_s = np.zeros(slots + 1, np.float64)  # when the blocks of the next chunk began to arrive
        self._asked = np.zeros(slots + 1, np.bool_)  # whether the request asked for a first chunk of this size
        self._most_first = max(goals.first_blocks, self._lasting(goals.first_s))
        self._least = max(1, self._lasting(goals.least_s))
        self._steps = deque([-1] * goals.between_frames, goals.between_frames)
        """The talker's number of steps at each of the last launches."""
        self._chosen_s, self._beside_talker = 0.0, True
        """When the last launch was chosen, and whether the talker works beside it."""

    def open(self, slot: int, first_frames: int | None) -> None:
        self._next[slot] = self._schedule.asked(first_frames) if first_frames else self._schedule.first
        self._since_s[slot] = 0.0
        self._asked[slot] = first_frames is not None

    def choose(self, ready: Ready, most: int) -> Choice | None:
        slots, now_s = ready.slots, self._clock.now_s()
        self._since_s[slots[(ready.blocks > 0) & (self._since_s[slots] == 0)]] = now_s
        left_s, begun = self._clock.left_s(slots), self._clock.begun(slots)
        heard = _Listeners(left_s, begun, self._frame_s(ready))

        wanted = self._wanted(ready, heard)
        able = np.flatnonzero(self._due(ready, heard, wanted) | self._urgent(ready, heard, wanted, now_s))
        if not len(able):
            return None
        first_in_s = (self._most_first + 1) * self._costs.launch_s + self._goals.delivery_s
        able = able[np.argsort(np.where(begun, left_s, first_in_s)[able], kind="stable")]
        leader = able[0]
        size = max(int(wanted[leader]), self._common(ready, heard, able))
        blocks = self._schedule.fit(min(int(ready.blocks[leader]), size, self._schedule.largest))
        rows = able[self._joins(ready, wanted, blocks)[able]][:most]
        if left_s[leader] > self._config.comfort_s and self._can_wait(ready, rows, most):
            return None
        if self._gives_way(ready, heard, rows):
            return None
        if not self._costs.inline:
            return Choice(slots[rows], blocks)
        choice = self._in_time(ready, heard, rows, blocks)
        self._chosen_s, self._beside_talker = self._clock.now_s(), not ready.closing.all()
        return choice

    def launched(self, choice: Choice) -> None:
        now_s = self._clock.now_s()
        self._costs.add(now_s - self._chosen_s, choice.blocks * len(choice.slots), self._beside_talker)
        self._steps.append(self._costs.talker.steps)
        self._since_s[choice.slots] = now_s
        # A chunk that was cut short because it was urgent does not make the next ones small: many small launches
        # would cost the time that was lacking.
        self._next[choice.slots] = np.maximum(self._next[choice.slots], self._schedule.after(choice.blocks))

    # --- how large chunks should be ---

    def _wanted(self, ready: Ready, heard: _Listeners) -> Ints:
        """Returns how many blocks each row's next chunk should have."""
        wanted = self._next[ready.slots]
        if wait_s := max(heard.frame_s, self._all_s(ready.listeners)):
            first = np.where(self._asked[ready.slots], wanted, np.maximum(wanted, self._first(wait_s)))
            wanted = np.where(heard.begun, wanted, first)
        in_need = int(np.count_nonzero(self._in_need(heard))) if self._costs.inline else 0
        if all_s := self._all_s(max(1, in_need) + ready.joining):
            affordable = np.maximum(self._goals.reserve * heard.left_s / all_s, self._least).astype(np.int64)
            wanted = np.where(heard.begun, np.minimum(wanted, affordable), wanted)
        return wanted

    def _first(self, block_wait_s: float) -> int:
        """Returns how many blocks the first chunk needs, so that it lasts until the second one arrives.

        `block_wait_s`: how long it takes until every listener has one more block.
        """
        schedule, block_s = self._schedule, self._costs.block_s
        spare_s = self._goals.spare * self._config.patience_s

        def second(first: int) -> float:  # the blocks that a listener needs before the first chunk has been played
            return first if self._costs.inline else max(1.0, self._goals.second_s / block_s)

        lasting = (n for n in schedule.ladder if n * block_s >= block_wait_s * second(n) + spare_s)
        return min(next(lasting, self._most_first), self._most_first, schedule.largest)

    def _common(self, ready: Ready, heard: _Listeners, able: Ints) -> int:
        """Returns how many blocks all rows that start now have in common; 0 if the first of `able` does not start.

        A stage whose source makes a second of audio at a time need not begin with a fraction of it. Where a larger
        launch takes longer, first audio would come later.
        """
        starts = able[~heard.begun[able] & ~self._asked[ready.slots[able]]]
        if self._costs.inline or self._goals.in_launch_order or not len(starts) or starts[0] != able[0]:
            return 0
        going_on = starts[~ready.closing[starts]]  # a row that ends early must not make the others' chunks small
        return int(ready.blocks[going_on].min()) if len(going_on) else 0

    # --- when they are decoded ---

    def _due(self, ready: Ready, heard: _Listeners, wanted: Ints) -> Bools:
        """Returns which rows have the whole chunk, or as much of it as will come."""
        enough = self._goals.enough_s
        if enough < np.inf:
            wanted = np.where(heard.begun, np.minimum(wanted, max(1, self._lasting(enough))), wanted)
        due: Bools = ready.blocks >= np.where(ready.closing, 1, wanted)
        return due

    def _urgent(self, ready: Ready, heard: _Listeners, wanted: Ints, now_s: float) -> Bools:
        """Returns which rows get the blocks that are ready, because the rest of the chunk would come too late."""
        if self._goals.in_launch_order:
            return np.zeros(len(ready.slots), np.bool_)
        patience_s, planned = self._config.patience_s, self._next[ready.slots]
        waited_s = now_s - self._since_s[ready.slots]
        rest_in_s = waited_s * (wanted - ready.blocks) / np.maximum(ready.blocks, 1) + self._costs.launch_s * wanted
        late = rest_in_s > np.maximum(heard.left_s - patience_s, patience_s)
        if not self._costs.inline:
            late |= (heard.left_s > 0) & (heard.left_s < self._goals.delivery_s)
        larger_s = patience_s + heard.frame_s * (wanted - planned)
        enough = (ready.blocks >= planned) & (waited_s > larger_s)  # of a first chunk that was made larger
        urgent: Bools = (ready.blocks > 0) & np.where(heard.begun, late, enough)
        return urgent

    def _joins(self, ready: Ready, wanted: Ints, blocks: int) -> Bools:
        """Returns, for each row, whether it can take part in a launch of this size."""
        if not self._goals.in_launch_order:
            joins: Bools = ready.blocks >= blocks
            return joins
        fits = [n > 0 and self._schedule.fit(n) == blocks for n in np.minimum(ready.blocks, wanted).tolist()]
        return np.asarray(fits, np.bool_)

    def _can_wait(self, ready: Ready, rows: Ints, most: int) -> bool:
        full = len(rows) >= min(len(ready.slots), most)
        return not (full or ready.closing[rows].any() or ready.crowded[rows].any())

    def _gives_way(self, ready: Ready, heard: _Listeners, rows: Ints) -> bool:
        """Returns whether a launch waits for the talker's next frame.

        On a GPU launches go ahead of the talker's. Without this, the last chunks of many requests, which no listener
        needs yet, would delay the frames of new requests by 0.2 seconds. On a CPU a listener who is about to underrun
        needs the next frame first.
        """
        goals, talker = self._goals, self._costs.talker
        if self._costs.inline:
            dry = heard.begun & (heard.left_s < goals.dry_s) & (heard.left_s > 0) & (ready.blocks == 0)
            return bool(dry.any()) and not self._in_need(heard)[rows].any()
        if not talker.is_working or self._steps[0] != talker.steps:
            return False
        return bool(heard.left_s[rows[0]] > goals.yields_above_s and not ready.crowded[rows].any())

    def _in_time(self, ready: Ready, heard: _Listeners, rows: Ints, blocks: int) -> Choice:
        """Returns a launch so short that its first row, the most urgent one, gets its audio in time, and that all other
        listeners can wait for it."""
        block_s, goals = self._costs.launch_s, self._goals
        if not block_s:
            return Choice(ready.slots[rows], blocks)
        leader, others = rows[0], np.ones(len(ready.slots), np.bool_)
        goes_on = bool(heard.begun[leader])
        others[leader] = not goes_on
        allowed_s = goals.reserve * float(heard.left_s[others & heard.begun].min(initial=np.inf))
        if goes_on and (ready.joining or not heard.begun[others].all()):
            allowed_s = min(allowed_s, goals.newcomer_s)
        allowed = min(max(allowed_s / block_s, goals.least_blocks, self._least), blocks * len(rows))
        if goes_on:
            blocks = self._schedule.fit(int(min(blocks, allowed)))
            in_time_s = float(heard.left_s[leader]) - goals.delivery_s
            allowed = min(allowed, max(in_time_s / block_s, goals.least_blocks * blocks))
        in_need = self._in_need(heard)
        if in_need[leader]:
            rows = rows[in_need[rows]]  # listeners with plenty of audio would only make the launch longer
        return Choice(ready.slots[rows[: max(1, int(allowed / blocks))]], blocks)

    def _in_need(self, heard: _Listeners) -> Bools:
        """Returns which listeners have heard nothing yet or have little audio left."""
        return ~heard.begun | (heard.left_s < self._config.comfort_s)

    # --- what it costs ---

    def _frame_s(self, ready: Ready) -> float:
        """Returns the seconds until the talker has made one more block for every listener; 0 if that is very soon."""
        frame_s = self._costs.frame_s(ready.listeners, ready.joining, TurnOrder.MOST_S)
        return frame_s if frame_s > self._goals.busy * self._costs.block_s else 0.0

    def _all_s(self, rows: int) -> float:
        """Returns the seconds of work for one block of each of these rows; 0 if that is negligible."""
        all_s = self._costs.launch_s * rows
        return all_s if all_s >= self._goals.negligible * self._costs.block_s else 0.0

    def _lasting(self, seconds: float) -> int:
        """Converts seconds of audio to the nearest number of blocks."""
        return round(seconds / self._costs.block_s)
