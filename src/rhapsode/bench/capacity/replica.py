"""A simulated replica: its requests share its speed, and further ones wait in its queue."""

from __future__ import annotations

import heapq
from collections import deque

from rhapsode.bench.capacity.curve import ReplicaCurve

QUANTILE_STEPS = 100


class SimulatedReplica:
    """Speaks up to `places` requests at once, all at the pace of that number.

    Its clock counts the seconds of audio that every request in it has been given. A request ends when the clock has
    advanced by what its first audio left of it, so a change of the pace touches one number and no request.
    """

    __slots__ = (
        "_clock_s",
        "_curve",
        "_ends",
        "_heads",
        "_paces",
        "_seen_s",
        "active",
        "busy_s",
        "is_leaving",
        "queue",
    )

    def __init__(self, curve: ReplicaCurve, now_s: float) -> None:
        self._curve = curve
        self._paces = curve.paces
        self._heads = curve.heads
        self._clock_s = 0.0
        self._seen_s = now_s
        self._ends: list[tuple[float, int]] = []
        self.active = 0
        self.busy_s = 0.0
        """Sum over time of requests spoken: seconds of slots."""
        self.queue: deque[int] = deque()
        self.is_leaving = False

    @property
    def load(self) -> int:
        return self.active + len(self.queue)

    @property
    def has_place(self) -> bool:
        return self.active < self._curve.places

    def start(self, request: int, audio_s: float, luck: float, now_s: float) -> float:
        """Starts a request and returns the time to its first audio; `luck`, 0 to 1, chooses among those measured."""
        self._advance(now_s)
        self.active += 1
        first_s = float(self._curve.first_s[self.active, round(luck * QUANTILE_STEPS)])
        rest_s = max(audio_s - self._heads[self.active], 0.0)
        heapq.heappush(self._ends, (self._clock_s + rest_s + first_s / self._paces[self.active], request))
        return first_s

    def next_end_s(self) -> float | None:
        """Returns when the next request ends, if none starts before."""
        if not self._ends:
            return None
        return self._seen_s + (self._ends[0][0] - self._clock_s) * self._paces[self.active]

    def end(self, now_s: float) -> int:
        """Ends the request that is due, and returns it."""
        self._advance(now_s)
        self.active -= 1
        return heapq.heappop(self._ends)[1]

    def _advance(self, now_s: float) -> None:
        past_s = now_s - self._seen_s
        if self.active:
            self._clock_s += past_s / self._paces[self.active]
            self.busy_s += past_s * self.active
        self._seen_s = now_s
