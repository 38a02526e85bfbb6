"""Who is vocoded next, and how much: small first chunks, then larger ones, and nobody runs dry."""

from __future__ import annotations

import time
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rhapsode.config import ChunkConfig

Ints = NDArray[np.int64]
clock_s = time.perf_counter
MOST_FIRST = 4
"""Frames of a first chunk at most, unless more are asked for."""


@dataclass(frozen=True)
class Choice:
    """One decode launch: these slots, this many frames each, this many more to look ahead at."""

    slots: Ints
    frames: int
    ahead: int


class ChunkSchedule:
    """The sizes chunks come in: first, first * growth, ... up to the largest.

    Where launches are captured as graphs, only sizes of the `ladder` are used: a tail of 13 frames is 8 + 4 + 1.
    """

    def __init__(self, config: ChunkConfig, captured: bool) -> None:
        self.first = config.first
        self.largest = config.largest
        self._growth = config.growth
        self._captured = captured
        self.ladder = [1]
        while self.ladder[-1] * config.growth <= config.largest:
            self.ladder.append(self.ladder[-1] * config.growth)
        self.ladder = sorted({*self.ladder, config.first, config.largest})

    def after(self, frames: int) -> int:
        """The size that follows a chunk of this many frames."""
        return min(frames * self._growth, self.largest)

    def fit(self, frames: int) -> int:
        """The largest chunk that this many frames fill."""
        return self.ladder[bisect_right(self.ladder, frames) - 1] if self._captured else frames


class Deadlines:
    """Chooses rows by the moment their listener runs dry.

    A row is due when its next chunk's frames are there. It goes with what it has when the rest, at the pace of the
    frames so far, would come too late. Rows whose listeners have plenty in hand wait for company, so that batches fill.
    Where a launch is the work itself, as on a CPU (`working`), chunks are so small that all can be served in time.
    Where chunks are `fixed`, each row's are those of the schedule, whatever the clock and the others do.
    """

    def __init__(
        self,
        slots: int,
        schedule: ChunkSchedule,
        config: ChunkConfig,
        frame_s: float,
        lookahead: int,
        fixed: bool = False,
        working: bool = False,
    ) -> None:
        self._fixed = fixed
        self._working = working
        self._frame_s = frame_s
        self._schedule = schedule
        self._config = config
        self._lookahead = lookahead
        self.want = np.zeros(slots + 1, np.int64)
        self.dry_at_s = np.zeros(slots + 1, np.float64)
        self._asked = np.zeros(slots + 1, np.bool_)  # for a first chunk of that size
        self._since_s = np.zeros(slots + 1, np.float64)  # when the frames of the next chunk began to come
        self._chosen_s = 0.0  # when the launch under way was
        self._lately = np.zeros(2)  # seconds that launches took, and frames they were of

    def open(self, slot: int, first_frames: int | None) -> None:
        self.want[slot] = min(first_frames or self._schedule.first, self._schedule.largest)
        self.dry_at_s[slot] = self._since_s[slot] = 0.0
        self._asked[slot] = first_frames is not None

    def sent(self, choice: Choice, audio_s: float) -> None:
        """These rows' listeners have that much more to play."""
        slots, now_s = choice.slots, clock_s()
        if self._working:
            self._lately = 0.9 * self._lately + (now_s - self._chosen_s, choice.frames * len(slots))
        self._since_s[slots] = now_s
        self.dry_at_s[slots] = np.maximum(self.dry_at_s[slots], now_s) + audio_s
        # A chunk cut short for haste does not make the next ones small: they would cost the time that was lacking.
        self.want[slots] = np.maximum(self.want[slots], self._schedule.after(choice.frames))

    def choose(self, live: Ints, ready: Ints, ended: NDArray[np.bool_], room: int, most: int) -> Choice | None:
        """The next launch over the `live` slots, which have `ready` frames each; None: nothing to do now."""
        usable = np.where(ended, ready, ready - self._lookahead)
        now_s = clock_s()
        self._since_s[live[(usable > 0) & (self._since_s[live] == 0)]] = now_s
        dry_in_s = self.dry_at_s[live] - now_s
        want = self._wanted(live, dry_in_s)
        due = usable >= np.where(ended, 1, want)
        whole_in_s = (now_s - self._since_s[live]) * (want - usable) / np.maximum(usable, 1) + self._cost_s() * want
        patience_s = self._config.patience_s
        late = whole_in_s > np.maximum(dry_in_s - patience_s, patience_s)
        begun = self.dry_at_s[live] > 0
        waited = (usable >= self.want[live]) & (now_s - self._since_s[live] > patience_s)  # for more than it must have
        late = np.where(begun, late, waited)
        urgent = (usable > 0) & late & (not self._fixed)
        able = np.flatnonzero(due | urgent)
        if not len(able):
            return None
        able = able[np.argsort(dry_in_s[able], kind="stable")]
        leader = able[0]
        frames = self._schedule.fit(int(min(usable[leader], want[leader])))
        ahead = np.where(ended, np.minimum(self._lookahead, ready - frames), self._lookahead)
        together = (usable[able] >= frames) & (ahead[able] == ahead[leader])
        if self._fixed:
            together &= [self._schedule.fit(n) == frames for n in np.minimum(usable, want)[able].tolist()]
        mates = able[together][:most]
        comfortable = dry_in_s[leader] > self._config.comfort_s
        can_wait = not ended[mates].any() and (ready[mates] < room).all()
        if comfortable and can_wait and len(mates) < min(len(live), most):
            return None
        self._chosen_s = now_s
        return Choice(live[mates], frames, int(ahead[leader]))

    def _wanted(self, live: Ints, dry_in_s: NDArray[np.float64]) -> Ints:
        """Frames of each row's next chunk."""
        want, all_s = self.want[live], self._cost_s() * len(live)
        if self._fixed or all_s < 0.1 * self._frame_s:
            return want
        served = np.maximum(0.5 * dry_in_s / all_s, 1).astype(np.int64)  # all, in half the time this one has
        first = np.where(self._asked[live], want, np.maximum(want, self._first(all_s)))
        return np.where(self.dry_at_s[live] > 0, np.minimum(want, served), first)

    def _first(self, all_s: float) -> int:
        """Frames to begin with, so that they last until all have had a second chunk; one of each costs `all_s`."""
        least_s = self._config.patience_s
        lasting = (n for n in self._schedule.ladder if n * self._frame_s >= all_s * self._schedule.after(n) + least_s)
        return min(next(lasting, MOST_FIRST), MOST_FIRST, self._schedule.largest)

    def _cost_s(self) -> float:
        """Of a frame of a row."""
        seconds, frames = self._lately.tolist()
        return seconds / frames if frames else 0.0
