"""Connections with time limits: uvicorn itself waits for slow clients for ever.

A client has `receive_timeout_s` to send a request, plus the time that its bytes take on a slow link. Once the send
buffer of its connection is full, the client has `max_request_s` to read on. After that the connection is reset, since
an orderly close would wait for the client again. Beyond `max_connections` a new connection is reset at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from rhapsode.config.server import ServerConfig
from rhapsode.serve.listener import unread_bytes

if sys.platform != "win32":
    import resource

SLOW_LINK_BYTES_PER_S = 8192
RESERVED_FILES = 64  # for voices, references and the decoder
MOST_FILES = 65_536


def reset(transport: asyncio.WriteTransport) -> None:
    """Ends a connection at once, and drops the bytes that its client has not read, here and in the kernel."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):  # it may be gone already
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class _Stall:
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


class HttpConnection(HttpToolsProtocol):
    def __init__(self, limits: ServerConfig, most: int, **uvicorn_gives: Any) -> None:
        super().__init__(**uvicorn_gives)
        self._limits = limits
        self._most = most
        self._stall = _Stall(self.loop, limits.max_request_s)
        self._receiving: asyncio.TimerHandle | None = None
        self._on_lost: Callable[[], None] | None = None
        self._begun_s = 0.0
        self._received = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._most:
            reset(transport)
            return
        self._begin_receiving()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_receiving()
        self._stall.end()
        super().connection_lost(exc)
        if self._on_lost is not None:
            self._on_lost()

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"]["reset"] = partial(reset, self.transport)
        self.scope["state"]["unread_bytes"] = partial(unread_bytes, self.transport)
        self.scope["state"]["when_lost"] = self._when_lost
        self.scope["state"]["is_full"] = self._is_full
        if self._receiving is None:  # a further request of the same connection
            self._begin_receiving()

    def on_message_complete(self) -> None:
        self._end_receiving()
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._end_receiving()
        super().handle_websocket_upgrade()

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

    def _begin_receiving(self) -> None:
        self._begun_s, self._received = self.loop.time(), 0
        self._check_receiving()

    def _check_receiving(self) -> None:
        allowed_s = self._limits.receive_timeout_s + self._received / SLOW_LINK_BYTES_PER_S
        left_s = self._begun_s + allowed_s - self.loop.time()
        if left_s > 0:
            self._receiving = self.loop.call_later(left_s, self._check_receiving)
        else:
            reset(self.transport)

    def _end_receiving(self) -> None:
        if self._receiving is not None:
            self._receiving.cancel()
            self._receiving = None


class SocketConnection(WebSocketsSansIOProtocol):
    def __init__(self, limits: ServerConfig, **uvicorn_gives: Any) -> None:
        super().__init__(**uvicorn_gives)
        self._stall = _Stall(self.loop, limits.max_request_s)

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):
            self.scope["state"]["reset"] = partial(reset, self.transport)
            self.scope["state"]["unread_bytes"] = partial(unread_bytes, self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stall.end()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.begin(self.transport)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall.end()


class ConnectionConfig(uvicorn.Config):
    """uvicorn's settings with our connection classes."""

    def __init__(self, app: Any, limits: ServerConfig, **settings: Any) -> None:
        # uvicorn itself would believe any program on this machine whose address it gives as the client's.
        super().__init__(app, proxy_headers=False, **settings)
        self._limits = limits

    def load(self) -> None:
        super().load()
        most = self._limits.max_connections or most_connections()
        self.http_protocol_class: Any = partial(HttpConnection, self._limits, most)
        self.ws_protocol_class: Any = partial(SocketConnection, self._limits)


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
