"""Accepts Wyoming connections on a separate port."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress

from rhapsode.serve.observe.logs import new_id
from rhapsode.serve.service import Service
from rhapsode.serve.stall import reset
from rhapsode.serve.wyoming.announcement import WyomingAnnouncement
from rhapsode.serve.wyoming.session import WyomingSession, most_bytes

log = logging.getLogger("rhapsode.serve")

CLOSING_S = 1.0


class WyomingListener:
    """Runs a session for every connection. Beyond `server.wyoming.most` a new connection is reset at once."""

    def __init__(self, service: Service, listening: socket.socket) -> None:
        self._service = service
        self._socket = listening
        self._announcement = WyomingAnnouncement(service, listening) if service.config.wyoming.announce else None
        self._server: asyncio.Server | None = None
        self._sessions: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        return len(self._sessions)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, sock=self._socket, limit=most_bytes(self._service))
        if self._announcement is not None:
            await self._announcement.start()

    async def stop(self) -> None:
        """Closes the port and ends all sessions, with the requests they run."""
        if self._announcement is not None:
            await self._announcement.stop()
        if self._server is not None:
            self._server.close()
        for session in self._sessions:
            session.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._sessions) >= self._service.config.wyoming.most:
            reset(writer.transport)
            return
        session_id = new_id().replace("req", "wyoming")
        fields = {"fields": {"request_id": session_id}}
        self._sessions.add(task)
        self._service.metrics.wyoming.inc()
        log.info("Wyoming connection opened", extra=fields)
        try:
            await WyomingSession(self._service, reader, writer, session_id).run()
        finally:
            self._sessions.discard(task)
            self._service.metrics.wyoming.dec()
            log.info("Wyoming connection closed", extra=fields)
            await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    """Closes a connection in an orderly way, or resets it if its client does not read the last bytes."""
    writer.close()
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(CLOSING_S):
            await writer.wait_closed()
            return
    reset(writer.transport)
