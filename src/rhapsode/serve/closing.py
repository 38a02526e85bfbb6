"""Ends connections that are closed, but whose clients do not read the last bytes: closing would wait for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from rhapsode.serve.stall import reset


class Closing:
    """Resets a connection when it has been closing for too long. `check` is to be called now and then."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._since_s: dict[asyncio.Transport, float] = {}

    def check(self, transports: Iterable[asyncio.Transport], now_s: float) -> None:
        """`transports` are those of all open connections."""
        closing = (transport for transport in transports if transport.is_closing())
        self._since_s = {transport: self._since_s.get(transport, now_s) for transport in closing}
        for transport, since_s in self._since_s.items():
            if now_s - since_s > self._limit_s:
                reset(transport)
