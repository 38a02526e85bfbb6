"""The queue: requests that wait for a slot, in a fair order among their clients."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter as clock_s
from typing import Generic, Protocol, TypeVar

MOST_AHEAD_S = 10.0
"""How much later a request may have come and still go ahead of one that asks for more."""


class Waiting(Protocol):
    """What waits in a line."""

    @property
    def client(self) -> str: ...


W = TypeVar("W", bound=Waiting)


@dataclass(order=True)
class QueuePlace(Generic[W]):
    """The place of a request in the line of its client: it is due when it came, and later the more it asks for."""

    due_s: float
    arrival: int
    job: W = field(compare=False)


class WaitingLine(Generic[W]):
    """Requests that wait. The next one is the first of the client who has the fewest slots.

    With one client that is first come, first served, but short speech goes ahead of long speech that came up to
    `MOST_AHEAD_S` before it: who asks for little need not wait for what takes minutes. Not thread-safe: who uses it
    has a lock.
    """

    def __init__(self) -> None:
        self._by_client: dict[str, list[QueuePlace[W]]] = {}
        self._arrivals = 0
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[W]:
        """Yields all waiting requests, client by client."""
        for line in self._by_client.values():
            yield from (place.job for place in line)

    def add(self, job: W, expected_s: float = 0.0) -> None:
        """`expected_s` is how long its speech will be."""
        place = QueuePlace(clock_s() + min(expected_s, MOST_AHEAD_S), self._arrivals, job)
        insort(self._by_client.setdefault(job.client, []), place)
        self._arrivals += 1
        self._length += 1

    def next(self, slots: Mapping[str, int]) -> W | None:
        """Returns the request to admit next, which stays in the line. `slots` counts the slots of each client."""
        lines = self._by_client.items()
        first = min(lines, key=lambda line: (slots.get(line[0], 0), line[1][0]), default=None)
        return first[1][0].job if first else None

    def remove(self, job: W) -> bool:
        """Takes a request out of the line; returns false if it is not there."""
        line = self._by_client.get(job.client, [])
        found = next((number for number, place in enumerate(line) if place.job is job), None)
        if found is None:
            return False
        del line[found]
        self._length -= 1
        if not line:
            del self._by_client[job.client]
        return True

    def displaced_by(self, client: str) -> W | None:
        """Returns the request that gives its place in a full line to a new one of this client: the newest of the client
        with the most requests in the line, unless the new one's client has as many itself."""
        fullest = max(self._by_client.values(), key=lambda line: (len(line), _newest(line).arrival), default=None)
        if fullest is None or len(fullest) <= len(self._by_client.get(client, ())):
            return None
        return _newest(fullest).job


def _newest(line: list[QueuePlace[W]]) -> QueuePlace[W]:
    return max(line, key=lambda place: place.arrival)
