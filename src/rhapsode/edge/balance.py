"""Chooses among replicas: prefers the one that already served a voice or session, unless it is too busy."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol, TypeVar

BUSIER = 1.25
"""How many times the average load a preferred replica may have."""
SPARE = 1.0
"""Requests that it may have beyond that: with few requests the average says little."""


class Loaded(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def load(self) -> float: ...


Candidate = TypeVar("Candidate", bound=Loaded)


def in_order(replicas: Sequence[Candidate], key: str | None) -> list[Candidate]:
    """Returns the replicas to try, best first.

    Without a key the least busy one is first. With a key it is the one with the highest hash of key and replica
    (rendezvous hashing): always the same one, and when a replica comes or goes only its own keys move.
    """
    by_load = sorted(replicas, key=lambda replica: (replica.load, replica.id))
    if key is None or len(by_load) < 2:
        return by_load
    bound = BUSIER * sum(replica.load for replica in by_load) / len(by_load) + SPARE
    preferred = max(by_load, key=lambda replica: _score(key, replica.id))
    if preferred.load > bound:
        return by_load
    return [preferred, *(replica for replica in by_load if replica is not preferred)]


def _score(key: str, replica_id: str) -> bytes:
    return hashlib.blake2b(f"{key}\0{replica_id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
