"""The queue: requests that wait for a slot, in a fair order among their clients."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from rhapsode.engine.job import Job


class WaitingLine:
    """Requests that wait. The next one is the oldest of the client who has the fewest slots.

    With one client that is first come, first served. Not thread-safe: the engine has a lock.
    """

    def __init__(self) -> None:
        self._by_client: dict[str, deque[tuple[int, Job]]] = {}
        self._arrivals = 0
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Job]:
        """Yields all waiting requests, client by client."""
        for line in self._by_client.values():
            yield from (job for _, job in line)

    def add(self, job: Job) -> None:
        self._by_client.setdefault(job.client, deque()).append((self._arrivals, job))
        self._arrivals += 1
        self._length += 1

    def next(self, slots: Mapping[str, int]) -> Job | None:
        """Returns the request to admit next, which stays in the line. `slots` counts the slots of each client."""
        lines = self._by_client.items()
        first = min(lines, key=lambda line: (slots.get(line[0], 0), line[1][0][0]), default=None)
        return first[1][0][1] if first else None

    def remove(self, job: Job) -> bool:
        """Takes a request out of the line; returns false if it is not there."""
        line = self._by_client.get(job.client, ())
        found = next((place for place in line if place[1] is job), None)
        if found is None:
            return False
        line = self._by_client[job.client]
        line.remove(found)
        self._length -= 1
        if not line:
            del self._by_client[job.client]
        return True

    def displaced_by(self, client: str) -> Job | None:
        """Returns the request that gives its place in a full line to a new one of this client: the newest of the client
        with the most requests in the line, unless the new one's client has as many itself."""
        fullest = max(self._by_client.values(), key=lambda line: (len(line), line[-1][0]), default=None)
        if fullest is None or len(fullest) <= len(self._by_client.get(client, ())):
            return None
        return fullest[-1][1]
