"""The cluster's edge in a simulation: chooses the replica for each request, by the loads that the edge knows."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from rhapsode.edge.balance import BUSIER, SPARE, in_order

STALE = 4
"""When the heap has this many entries per replica, most of them out of date, it is built again."""


@dataclass(frozen=True)
class IdleReplica:
    """A replica without load: among such replicas, the hash of a key alone decides the order."""

    id: str
    load: float = 0.0


class SimulatedEdge:
    """Makes the first choice of `in_order`, without sorting all replicas for every request.

    It knows the loads as the real edge does: those of the last poll, plus requests sent and minus requests ended since.
    """

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._by_load: list[tuple[int, int]] = []
        self._total = 0
        self._preferred: dict[str, int] = {}

    def poll(self, loads: Mapping[int, int]) -> None:
        """Stores the loads of all replicas, by their number."""
        if loads.keys() != self._known.keys():
            self._preferred = {}
        self._known = dict(loads)
        self._total = sum(loads.values())
        self._sort()

    def refresh(self, loads: Mapping[int, int]) -> None:
        """Stores the loads of replicas that have changed; the others keep theirs."""
        for number, load in loads.items():
            self._total += load - self._known[number]
            self._known[number] = load
            heapq.heappush(self._by_load, (load, number))
        if len(self._by_load) > STALE * len(self._known):
            self._sort()

    def _sort(self) -> None:
        self._by_load = [(load, number) for number, load in self._known.items()]
        heapq.heapify(self._by_load)

    def choose(self, key: str | None) -> int | None:
        """Returns the number of the replica for the next request, and counts the request; None if there is none."""
        if not self._known:
            return None
        chosen = self._least_busy()
        if key is not None:
            preferred = self._preferred_for(key)
            if self._known[preferred] <= BUSIER * self._total / len(self._known) + SPARE:
                chosen = preferred
        self._known[chosen] += 1
        self._total += 1
        return chosen

    def ended(self, number: int) -> None:
        """Removes a request from this replica's load, as the edge does when the last byte has passed."""
        if self._known.get(number, 0) > 0:
            self._known[number] -= 1
            self._total -= 1
            heapq.heappush(self._by_load, (self._known[number], number))

    def _least_busy(self) -> int:
        while True:
            load, number = self._by_load[0]
            if self._known[number] == load:
                return number
            heapq.heapreplace(self._by_load, (self._known[number], number))

    def _preferred_for(self, key: str) -> int:
        if key not in self._preferred:
            idle = [IdleReplica(name(number)) for number in self._known]
            self._preferred[key] = int(in_order(idle, key)[0].id)
        return self._preferred[key]


def name(number: int) -> str:
    """Returns the id of a replica; ids are ordered as numbers are."""
    return f"{number:08}"
