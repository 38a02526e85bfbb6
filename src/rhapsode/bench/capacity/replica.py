"""A simulated replica: its requests share its speed, and further requests are queued."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from math import floor

from rhapsode.bench.capacity.curve import ReplicaCurve

QUANTILE_STEPS = 100
NEARLY = 1e-6
"""Smaller differences of the clock, in seconds of audio, are rounding errors: the clock is a sum of many products."""


@dataclass(slots=True)
class Newcomer:
    """A request that has no audio yet."""

    request: int
    audio_s: float
    lead_s: float
    joined_at: float = 0.0
    """When it joined, by the clock of the replica."""


class SimulatedReplica:
    """Speaks up to `places` requests at once, at the pace for the number that it speaks.

    Its clock counts seconds of audio per request, so a change of the pace changes the clock alone, and no request. A
    request joins at the end of a frame. Its first audio is due when it has as much audio as a first chunk has, which is
    more on a busy replica. This is checked again after each frame: the end of another request can make first audio due
    at once, and a request that joins can delay it.
    """

    __slots__ = (
        "_clock_s",
        "_curve",
        "_ends",
        "_joining",
        "_seen_s",
        "_unheard",
        "active",
        "busy_s",
        "is_leaving",
        "queue",
    )

    def __init__(self, curve: ReplicaCurve, now_s: float) -> None:
        self._curve = curve
        self._clock_s = 0.0
        self._seen_s = now_s
        self._joining: list[Newcomer] = []  # they join with the next frame
        self._unheard: list[Newcomer] = []
        self._ends: list[tuple[float, int]] = []
        self.active = 0
        self.busy_s = 0.0
        """Seconds of busy slots: the number of admitted requests, summed over time."""
        self.queue: deque[int] = deque()
        self.is_leaving = False

    @property
    def load(self) -> int:
        return self._taken + len(self.queue)

    @property
    def has_place(self) -> bool:
        return self._taken < self._curve.places

    @property
    def _taken(self) -> int:
        return self.active + len(self._joining)

    def start(self, request: int, audio_s: float, luck: float, now_s: float) -> None:
        """Admits a request; `luck`, 0 to 1, chooses among the measured times to first audio."""
        self._advance(now_s)
        lead_s = self._curve.leads[self._taken + 1][round(luck * QUANTILE_STEPS)]
        self._joining.append(Newcomer(request, audio_s, lead_s))
        if not self.active or not self._curve.frame_s:
            self._join()

    def next_s(self) -> float | None:
        """Returns the time of the next event, if no request starts before it; `None` if there is none."""
        if not self.active:
            return None
        due_at = self._ends[0][0]
        if self._joining:
            due_at = min(due_at, self._next_frame_at())
        for one in self._unheard:
            ready_at = one.joined_at + self._head_s(one)
            due_at = min(due_at, ready_at if ready_at > self._clock_s + NEARLY else self._next_frame_at())
        return self._seen_s + (due_at - self._clock_s) * self._curve.paces[self.active]

    def turn(self, now_s: float) -> tuple[list[tuple[int, float]], list[int]]:
        """Handles due events: returns the requests with first audio, each with its time, and the requests that end."""
        self._advance(now_s)
        begun, ended = self._begin(), []
        while self._ends and self._ends[0][0] <= self._clock_s + NEARLY:
            ended.append(heapq.heappop(self._ends)[1])
            self.active -= 1
        if self._joining and abs(self._next_frame_at() - self._clock_s - self._curve.frame_s) < 2 * NEARLY:
            self._join()
        return begun, ended

    def _join(self) -> None:
        if not self.active:
            self._clock_s = 0.0
        self.active += len(self._joining)
        for one in self._joining:
            one.joined_at = self._clock_s
            heapq.heappush(self._ends, (self._clock_s + self._work_s(one), one.request))
        self._unheard += self._joining
        self._joining = []

    def _begin(self) -> list[tuple[int, float]]:
        begun: list[Newcomer] = []
        unheard: list[Newcomer] = []
        for one in self._unheard:
            is_ready = one.joined_at + self._head_s(one) <= self._clock_s + NEARLY
            (begun if is_ready else unheard).append(one)
        self._unheard = unheard
        return [(one.request, self._seen_s + one.lead_s) for one in begun]

    def _head_s(self, one: Newcomer) -> float:
        """Returns the seconds of first audio of a request, by how many requests there are now."""
        return min(self._curve.heads[self.active], one.audio_s)

    def _work_s(self, one: Newcomer) -> float:
        """Returns the seconds of audio after which a request ends: whole frames, where they are known."""
        work_s = one.audio_s + self._curve.tail_s + one.lead_s / self._curve.paces[self.active]
        frame_s = self._curve.frame_s
        return max(round(work_s / frame_s), 1) * frame_s if frame_s else work_s

    def _next_frame_at(self) -> float:
        """Returns when the current frame ends, by the clock; now, if the length of a frame is not known."""
        frame_s = self._curve.frame_s
        return (floor((self._clock_s + NEARLY) / frame_s) + 1) * frame_s if frame_s else self._clock_s

    def _advance(self, now_s: float) -> None:
        past_s = now_s - self._seen_s
        if self.active:
            self._clock_s += past_s / self._curve.paces[self.active]
            self.busy_s += past_s * self._taken
        self._seen_s = now_s
