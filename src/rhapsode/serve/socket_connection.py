"""A WebSocket with time limits."""

from __future__ import annotations

from functools import partial
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from rhapsode.config.server import ServerConfig
from rhapsode.serve.listener import unread_bytes
from rhapsode.serve.stall import Stall, reset


class SocketConnection(WebSocketsSansIOProtocol):
    def __init__(self, limits: ServerConfig, **uvicorn_gives: Any) -> None:
        super().__init__(**uvicorn_gives)
        self._stall = Stall(self.loop, limits.max_request_s)

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
