"""Runs an HTTP server in a thread of a Ray actor, with an event loop of its own."""

from __future__ import annotations

import asyncio
import socket
import threading

import uvicorn

JOIN_S = 10.0
TICK_S = 0.05


class ServerThread:
    """A running server: where it listens, and whether it still runs.

    Calls of Ray run in another thread with another event loop, so they never delay audio.
    """

    def __init__(self, server: uvicorn.Server, listener: socket.socket) -> None:
        self.server = server
        host, port = listener.getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._thread = threading.Thread(target=server.run, args=([listener],), name="rhapsode-http", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    async def ended(self, timeout_s: float) -> None:
        """Waits until the server has ended by itself; after the timeout it is told to end."""
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        while self.is_running and asyncio.get_running_loop().time() < deadline_s:
            await asyncio.sleep(TICK_S)
        self.server.should_exit = True
        await asyncio.to_thread(self._thread.join, JOIN_S)

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)
