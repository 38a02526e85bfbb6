"""Tells replicas that somebody has opened the page: they load what its first click needs."""

from __future__ import annotations

import asyncio

from rhapsode.edge.fleet import Fleet, FleetReplica
from rhapsode.edge.gather import Gatherer


class PageWish:
    """Remembers that the page was opened, for replicas that come later."""

    def __init__(self, fleet: Fleet, gatherer: Gatherer) -> None:
        self._fleet, self._gatherer = fleet, gatherer
        self._is_open = False
        self._told: set[str] = set()
        self._telling: set[asyncio.Task[None]] = set()
        for model in fleet.models.values():
            model.on_come = self._came

    def opened(self) -> None:
        """Called when somebody opens the page."""
        self._is_open = True
        for _, replica in self._fleet.all():
            self._came(replica)

    def _came(self, replica: FleetReplica) -> None:
        if self._is_open and replica.id not in self._told:
            self._told.add(replica.id)
            telling = asyncio.create_task(self._gatherer.open_page(replica), name="open-page")
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)
