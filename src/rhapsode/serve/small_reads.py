"""Reads a connection in small steps, so that no callback of the event loop parses much at once."""

from __future__ import annotations

import asyncio
from typing import cast

READ_BYTES = 2**13
"""Read at once: at most 1,365 empty WebSocket frames, whose parsing takes 10 ms."""


class SmallReads(asyncio.BufferedProtocol):
    """Passes the events of a connection to a protocol, and its bytes at most `READ_BYTES` at a time."""

    def __init__(self, protocol: asyncio.Protocol, buffer: memoryview) -> None:
        """`buffer` may be shared by all connections of one event loop: its bytes are copied at once."""
        self._protocol = protocol
        self._buffer = buffer
        self.connection_lost = protocol.connection_lost  # type: ignore[method-assign]
        self.pause_writing = protocol.pause_writing  # type: ignore[method-assign]
        self.resume_writing = protocol.resume_writing  # type: ignore[method-assign]
        self.eof_received = protocol.eof_received  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._protocol.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._protocol.data_received(bytes(self._buffer[:nbytes]))

    @classmethod
    def follow_upgrade(cls, transport: asyncio.Transport, buffer: memoryview) -> None:
        """Reads on in small steps for the protocol that a connection has been upgraded to."""
        transport.set_protocol(cls(cast(asyncio.Protocol, transport.get_protocol()), buffer))
