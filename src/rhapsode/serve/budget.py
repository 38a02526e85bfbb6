"""Limits the bytes that all clients together may hold in memory."""

from __future__ import annotations

from rhapsode.errors import Busy


class Budget:
    """Counts the bytes in use; `take` raises `Busy` if there would be too many. To be called on the event loop only."""

    def __init__(self, limit: int, what: str) -> None:
        self._limit = limit
        self._what = what
        self._taken = 0

    def take(self, size: int) -> None:
        if self._taken + size > self._limit:
            raise Busy(f"the server's memory for {self._what} is full.")
        self._taken += size

    def give_back(self, size: int) -> None:
        self._taken -= size
