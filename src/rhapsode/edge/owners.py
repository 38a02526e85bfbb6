"""Remembers which replica got which request, for the last requests of this edge."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from rhapsode.edge.upstream import ReplicaLost

MOST = 4096


class Owners:
    """Replica ids by request id. Requests in flight are kept separately, so that the edge can refuse an id in use."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._owners: OrderedDict[str, str] = OrderedDict()
        self._in_flight: dict[str, str] = {}

    def began(self, request_id: str, replica_id: str) -> None:
        self._in_flight[request_id] = replica_id
        self._owners.pop(request_id, None)
        self._owners[request_id] = replica_id
        while len(self._owners) > self._most:
            self._owners.popitem(last=False)

    def ended(self, request_id: str) -> None:
        self._in_flight.pop(request_id, None)

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def owner(self, request_id: str) -> str | None:
        return self._owners.get(request_id)

    def is_running(self, request_id: str) -> bool:
        return request_id in self._in_flight


def lost_outcome(request_id: str) -> dict[str, Any]:
    """Returns the outcome of a request whose replica is gone, in the form of the replicas."""
    error = ReplicaLost("the replica that took this request is gone.")
    known = {"id": request_id, "object": "speech.outcome", "status": "failed", "delivered": False}
    return known | {"finish_reason": "failed"} | error.body()
