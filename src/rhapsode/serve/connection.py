"""Connections with time limits: uvicorn itself waits for slow clients for ever.

A client has `receive_timeout_s` to send a request, plus the time that its bytes take on a slow link. What is large must
keep the pace of a slow link all the time. Once the send
buffer of its connection is full, the client has `max_request_s` to read on, and as long to take the last bytes of a
connection that is closed (`closing.py`). After that the connection is reset, since an orderly close would wait for the
client again. A connection without a request stays open for `keep_alive_s`. Beyond `max_connections` the one that has
waited longest for a request is closed; if there is none, a new connection is reset at once.

A connection has one request at a time: the next one is parsed when the last one is answered. Until then its bytes are
only kept, and a client that sends more than `MOST_AHEAD_BYTES` of them is reset. Reading goes on meanwhile, since a
disconnect would not be noticed otherwise.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rhapsode.config.server import ServerConfig
from rhapsode.serve.budget import Budget
from rhapsode.serve.idle import IdleConnections
from rhapsode.serve.listener import unread_bytes
from rhapsode.serve.receiving import Receiving
from rhapsode.serve.small_reads import READ_BYTES, SmallReads
from rhapsode.serve.socket_connection import SocketConnection
from rhapsode.serve.stall import Stall, reset

if sys.platform != "win32":
    import resource

MOST_AHEAD_BYTES = 2**16  # of requests that follow one that is not answered yet
MOST_FRAMING_BYTES = 2**16  # of a request line, headers, chunk sizes and trailers
FRAMING_PER_BODY_BYTE = 16
BLANK_LINE = b"\n\r\n"
RESERVED_FILES = 64  # for voices, references and the decoder
MOST_FILES = 65_536


class HttpConnection(HttpToolsProtocol):
    """One connection, read in small steps."""

    def __init__(
        self,
        limits: ServerConfig,
        most: int,
        idle: IdleConnections,
        buffer: memoryview,
        buffer_bytes: int | None,
        **uvicorn_gives: Any,
    ) -> None:
        super().__init__(**uvicorn_gives)
        self._most = most
        self._idle = idle
        self._buffer = buffer
        self._buffer_bytes = buffer_bytes
        self._unread = bytearray()
        self._framing = 0
        self._body_left = 0
        self._has_headers = False
        self._stall = Stall(self.loop, limits.max_request_s)
        self._receiving = Receiving(self.loop, limits.receive_timeout_s)
        self._on_lost: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._most and not self._idle.close_oldest():
            reset(transport)
            return
        self._idle.add(transport)
        if self._buffer_bytes is not None:
            transport.set_write_buffer_limits(high=self._buffer_bytes)
        self._receiving.begin(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiving.end()
        self._stall.end()
        self._unread.clear()
        self._idle.remove(self.transport)
        super().connection_lost(exc)
        if self._on_lost is not None:
            self._on_lost()

    def data_received(self, data: bytes) -> None:
        self._receiving.add(len(data))
        self._unread += data
        self._parse()

    def _parse(self) -> None:
        """Parses what was received, at most to the end of a request that is to be answered first."""
        while not self._is_answering() and not self.transport.is_closing() and (piece := self._next_piece()):
            self._framing += len(piece)
            self._idle.remove(self.transport)
            if not self._receiving.is_on:  # a further request of the same connection
                self._receiving.begin(self.transport)
            super().data_received(piece)
            if self._framing > MOST_FRAMING_BYTES:
                self.send_400_response(f"The headers have more than {MOST_FRAMING_BYTES} bytes.")
        if len(self._unread) > MOST_AHEAD_BYTES:
            reset(self.transport)

    def _is_answering(self) -> bool:
        cycle = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    def _next_piece(self) -> bytes:
        """Takes bytes to parse, in which at most one request ends: a blank line ends a request, or its known length."""
        size = self._body_left
        if not size:
            end = self._unread.find(BLANK_LINE)
            size = end + len(BLANK_LINE) if end >= 0 else max(0, len(self._unread) + 1 - len(BLANK_LINE))
        piece = bytes(self._unread[:size])
        del self._unread[:size]
        return piece

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._has_headers = False
        self.scope["state"]["reset"] = partial(reset, self.transport)
        self.scope["state"]["unread_bytes"] = partial(unread_bytes, self.transport)
        self.scope["state"]["when_lost"] = self._when_lost
        self.scope["state"]["is_full"] = self._is_full

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_headers:  # else it is a trailer
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._has_headers = True
        length = next((value for name, value in self.headers if name == b"content-length"), b"0")
        self._body_left = int(length)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_left = max(0, self._body_left - len(body))
        self._framing = max(0, self._framing - (1 + FRAMING_PER_BODY_BYTE) * len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._receiving.end()
        self._framing = self._body_left = 0
        super().on_message_complete()
        if self.cycle is not None and self.cycle.response_complete:  # answered before all of it had come
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
            self._idle.add(self.transport)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._receiving.is_on and not self.transport.is_closing():  # all of the request has come
            self._idle.add(self.transport)
        if self._unread:
            self.loop.call_soon(self._parse)

    def handle_websocket_upgrade(self) -> None:
        self._receiving.end()
        self._unread.clear()
        super().handle_websocket_upgrade()
        SmallReads.follow_upgrade(self.transport, self._buffer)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.begin(self.transport)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall.end()

    def _when_lost(self, callback: Callable[[], None] | None) -> None:
        """Sets the callback that runs when the client disconnects during the current request; None removes it."""
        self._on_lost = callback
        if callback is not None:
            self.flow.resume_reading()  # else a disconnect would not be noticed
            if self.transport.is_closing():
                self.loop.call_soon(callback)

    def _is_full(self) -> bool:
        """Returns whether the send buffer is full: the next send then waits until the client has read something."""
        return self.flow.write_paused


class ConnectionConfig(uvicorn.Config):
    """uvicorn's settings with our connection classes."""

    def __init__(
        self, app: Any, limits: ServerConfig, uploads: Budget, *, buffer_bytes: int | None = None, **settings: Any
    ) -> None:
        """`uploads` counts unfinished WebSocket messages, beside the bodies of requests. `buffer_bytes`: how much is
        buffered for a client before sending waits; asyncio decides by default."""
        # uvicorn itself would believe any program on this machine whose address it gives as the client's.
        super().__init__(app, proxy_headers=False, **settings)
        self.timeout_keep_alive = limits.keep_alive_s  # type: ignore[assignment]  # a fraction of a second, too
        self._limits = limits
        self._uploads = uploads
        self._buffer_bytes = buffer_bytes

    def load(self) -> None:
        super().load()
        most = self._limits.max_connections or most_connections()
        idle = IdleConnections()
        buffer = memoryview(bytearray(READ_BYTES))

        def http_protocol(**uvicorn_gives: Any) -> SmallReads:
            connection = HttpConnection(self._limits, most, idle, buffer, self._buffer_bytes, **uvicorn_gives)
            return SmallReads(connection, buffer)

        self.http_protocol_class: Any = http_protocol
        self.ws_protocol_class: Any = partial(SocketConnection, self._limits, self._uploads)


def most_connections() -> int:
    """Returns how many connections may be open, and raises the process's limit of file descriptors if it is too low.

    Some file descriptors are left for everything else.
    """
    if sys.platform == "win32":
        return 512
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(16, max(soft, wanted) - RESERVED_FILES)
