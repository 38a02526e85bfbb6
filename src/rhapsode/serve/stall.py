"""Ends connections whose clients do not read."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct


def reset(transport: asyncio.WriteTransport) -> None:
    """Ends a connection at once, and drops the bytes that its client has not read, here and in the kernel."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):  # it may be gone already
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class Stall:
    """Resets a connection whose client has not read for too long."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_s: float) -> None:
        self._loop, self._limit_s = loop, limit_s
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        self.end()
        self._timer = self._loop.call_later(self._limit_s, reset, transport)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
