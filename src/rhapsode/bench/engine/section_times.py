"""A recorder of sections: seconds by name.

The time between two marks belongs to the innermost open section: a step counts as the talker's, except for what its
depth head takes; that counts as the head's, except for what sampling takes.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from itertools import pairwise
from typing import Any

from rhapsode.bench.engine.clock import Clock

SECTIONS = ("prefill", "talker", "depth", "sampling", "codec", "burst", "generator")
"""All names that the engine and the families mark, in the order a report shows them."""

Timeline = list[tuple[Any, str]]
"""Moments of the clock, each with the section that runs from there on; an empty name after the last section."""


class _ThreadState(threading.local):
    """The sections of one thread: on a CPU, talker and codec have a thread each."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.timeline: Timeline = []
        self.captured: list[Timeline] = []


class SectionTimes:
    """Times sections by a clock. The times of sections inside a captured graph are read after each replay."""

    def __init__(self, clock: Clock) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.runs: dict[str, int] = defaultdict(int)
        """How often each outermost section ran."""
        self._clock = clock
        self._thread = _ThreadState()
        self._finished: list[Timeline] = []
        self._lock = threading.Lock()

    def begin(self, name: str) -> None:
        self._thread.open.append(name)
        self._thread.timeline.append((self._clock.mark(), name))

    def end(self) -> None:
        here = self._thread
        if not here.open:
            return
        here.open.pop()
        here.timeline.append((self._clock.mark(), here.open[-1] if here.open else ""))
        if not here.open:
            (here.captured if self._clock.capturing() else self._finished).append(here.timeline)
            here.timeline = []

    def captured(self) -> list[Timeline] | None:
        timelines, self._thread.captured = self._thread.captured, []
        return timelines or None

    def replayed(self, events: list[Timeline]) -> None:
        """Reads the events now: the next replay overwrites them. This waits for the device."""
        self._clock.wait()
        for timeline in events:
            self._add(timeline)

    def settle(self) -> None:
        """Waits for the device, then adds up the times of recorded sections. Call it after the recording."""
        self._clock.wait()
        for timeline in self._finished:
            self._add(timeline)
        self._finished = []

    def _add(self, timeline: Timeline) -> None:
        with self._lock:
            for (mark, name), (following, _) in pairwise(timeline):
                if name:
                    self.seconds[name] += self._clock.between_s(mark, following)
            self.runs[timeline[0][1]] += 1
