"""Connections that wait for a request. Where connections are bounded, the oldest of them makes room for a new one."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from rhapsode.serve.listener import unreceived_bytes

MOST_LOOKS = 64
"""At how many connections `close_oldest` looks: each of them takes a few microseconds."""


class IdleConnections:
    """The idle connections of a server, the one that has waited longest first."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[asyncio.Transport, None] = OrderedDict()

    def add(self, transport: asyncio.Transport) -> None:
        self._waiting[transport] = None

    def remove(self, transport: asyncio.Transport) -> None:
        self._waiting.pop(transport, None)

    def close_oldest(self) -> bool:
        """Closes the connection that has waited longest; returns False if none can be closed.

        One whose client still reads the last answer, or has just sent a request, stays open.
        """
        for _ in range(min(MOST_LOOKS, len(self._waiting))):
            transport, _ = self._waiting.popitem(last=False)
            if transport.is_closing():
                continue
            if not transport.get_write_buffer_size() and not unreceived_bytes(transport):
                transport.close()
                return True
            self._waiting[transport] = None
        return False
