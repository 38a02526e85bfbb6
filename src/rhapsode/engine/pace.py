"""The measured pace of a stage: how long it works for a second of audio, by the number of listeners it serves."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from rhapsode.engine.clock import clock_s

MEMORY = 64
"""Measurements of one group of batch sizes that are averaged; older ones fade."""
PRIOR = 8
"""The weight of the interpolated pace of a new size, in measurements: the first one may have waited for prompts."""


@dataclass
class Group:
    """Batch sizes between two powers of two, and the moving averages of their measurements."""

    weight_s: float = 0.0
    rows: float = 0.0
    factor: float = 0.0

    def add(self, rows: int, factor: float, audio_s: float) -> None:
        self.weight_s = self.weight_s * (1 - 1 / MEMORY) + audio_s
        share = audio_s / self.weight_s
        self.rows += (rows - self.rows) * share
        self.factor += (factor - self.factor) * share


class Pace:
    """The real-time factor of a stage by batch size: seconds of work until every listener has one more second of audio.

    Sizes that were not measured are interpolated. Two rules relate all sizes: fewer rows are never slower, and rows
    together take no longer than one after the other. A new measurement corrects older ones that contradict it by these
    rules, so no value stays that was measured while other programs kept the machine busy. One thread measures, and any
    thread may read.
    """

    def __init__(self) -> None:
        self._groups: dict[int, Group] = {}
        self._points: list[tuple[float, float]] = []
        self._ticked_s = 0.0
        self.steps = 0
        """How many steps `tick` was called for."""
        self.on_change: Callable[[], None] = lambda: None

    @property
    def is_working(self) -> bool:
        """Whether another step follows the last one without a pause."""
        return self._ticked_s > 0

    @property
    def known(self) -> bool:
        """Whether anything was measured."""
        return bool(self._points)

    def observe(self, rows: int, work_s: float, audio_s: float) -> None:
        """Adds a measurement: it took `work_s` to make `audio_s` of audio, summed over so many listeners."""
        if rows < 1 or audio_s <= 0:
            return
        size = (rows - 1).bit_length()
        new = self._groups.get(size) or self._new_group(rows, audio_s)
        new.add(rows, rows * work_s / audio_s, audio_s)
        self._groups[size] = new
        for group in self._groups.values():
            ratio = group.rows / new.rows
            least, most = new.factor * min(1.0, ratio), new.factor * max(1.0, ratio)
            group.factor = min(max(group.factor, least), most)
        self._points = sorted((group.rows, group.factor) for group in self._groups.values())
        self.on_change()

    def _new_group(self, rows: int, audio_s: float) -> Group:
        """Returns a group for a batch size that was not measured before. It begins with the interpolated pace if larger
        batches were measured, and is empty otherwise."""
        is_between = self.known and rows < self._points[-1][0]
        return Group(PRIOR * audio_s, rows, self.at(rows)) if is_between else Group()

    def tick(self, rows: int, audio_s: float, other_s: float = 0.0) -> None:
        """Adds a step of a stage that works without a pause: the step took the time since the last one.

        `other_s`: how long the stage did something else in that time. It is subtracted; if it was more than half of the
        time, the step is not measured.
        """
        self.steps += 1
        last_s, self._ticked_s = self._ticked_s, clock_s()
        work_s = self._ticked_s - last_s - other_s
        if last_s and work_s > other_s:
            self.observe(rows, work_s, audio_s)

    def pause(self) -> None:
        """Notes that the work has stopped: the time until the next step is not measured."""
        self._ticked_s = 0.0

    def at(self, rows: int) -> float:
        """Returns the real-time factor with so many listeners; infinite if nothing was measured yet."""
        points = self._points
        if not points:
            return math.inf
        after = bisect_left(points, (rows,))
        if after == 0:
            return points[0][1]
        low_rows, low = points[after - 1]
        if after == len(points):
            return low * rows / low_rows
        high_rows, high = points[after]
        return low + (high - low) * (rows - low_rows) / (high_rows - low_rows)


class SlowestPace:
    """The pace of a whole pipeline. Its stages work at the same time, so the slowest one decides."""

    def __init__(self, paces: list[Pace]) -> None:
        self._paces = paces

    def at(self, rows: int) -> float:
        """Returns the real-time factor with so many listeners; infinite if nothing was measured yet."""
        return max((pace.at(rows) for pace in self._paces if pace.known), default=math.inf)

    def most(self, factor: float, rows: int) -> int:
        """Returns how many listeners, of at most `rows`, can be served at this real-time factor."""
        return bisect_right(range(1, rows + 1), factor, key=self.at)
