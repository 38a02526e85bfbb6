"""The report of a replica to the edge: where it listens, how busy it is, and what its checkpoint can do."""

from __future__ import annotations

from dataclasses import dataclass, field

from rhapsode.serve.service import Service


@dataclass(frozen=True)
class ReplicaReport:
    id: str
    url: str
    """Where the replica's own server listens."""
    load: int
    """Slots in use plus the queue. An open WebSocket that says nothing does not count."""
    capacity: int
    """How many requests the replica can speak at once; with real-time admission, how many listeners it can serve."""
    presets: tuple[str, ...]
    """Voices that need no reference: for these every replica is as good as another."""
    takes_voices: bool
    """Whether the checkpoint speaks with uploaded voices."""
    takes_references: bool = True
    """Whether a request or a session may bring recordings."""
    secret: str = field(default="", repr=False)
    """By which the edge proves to the replica that it is the edge, and may say who its clients are."""


def reported(service: Service, replica_id: str, url: str, secret: str) -> ReplicaReport:
    """Returns the report of a replica whose server listens at this address."""
    load, info = service.host.readings().load, service.info
    return ReplicaReport(
        id=replica_id,
        url=url,
        load=load.slots_in_use + load.queued,
        capacity=capacity(service),
        presets=info.presets,
        takes_voices=info.takes_uploads,
        takes_references=info.takes_references,
        secret=secret,
    )


def capacity(service: Service) -> int:
    load = service.host.readings().load
    in_real_time = service.deployment.limits.real_time and load.places > 0
    return max(1, min(load.slots, load.places) if in_real_time else load.slots)
