"""Starts at most a few requests in each iteration of the event loop.

A thousand requests that arrive together would otherwise block the event loop for a fifth of a second. Meanwhile running
streams would get no audio, and the engine would get none of the new requests.
"""

from __future__ import annotations

import asyncio
from collections import deque

from starlette.types import ASGIApp, Receive, Scope, Send

MOST = 8
"""Requests that start in one iteration of the event loop: about 2 ms of work."""


class Turnstile:
    """Starts `MOST` requests in an iteration of the event loop; the others wait, first come, first served."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._left = MOST  # how many may still start in this iteration
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._pass()
        await self._app(scope, receive, send)

    async def _pass(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # an earlier event loop may have stopped before it called `_turn`
            self._loop, self._left = loop, MOST
            self._waiting.clear()
        if self._left == MOST:
            loop.call_soon(self._turn, loop)
        if self._left:
            self._left -= 1
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts requests that wait, up to `MOST`. Called in each iteration of the event loop while requests start."""
        self._left = MOST
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            if not turn.done():  # a request may be cancelled while it waits
                turn.set_result(None)
                self._left -= 1
        if self._left < MOST:
            loop.call_soon(self._turn, loop)
