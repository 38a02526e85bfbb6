"""Lets a few requests in with each turn of the event loop.

A thousand that arrive together would take it for a fifth of a second: those who listen would wait for their audio, and
the engine for the first of the thousand.
"""

from __future__ import annotations

import asyncio
from collections import deque

from starlette.types import ASGIApp, Receive, Scope, Send

MOST = 8
"""Requests that begin in one turn: about 2 ms."""


class Turnstile:
    """Has requests wait for their turn, in the order they came."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._left = MOST  # of this turn
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._pass()
        await self._app(scope, receive, send)

    async def _pass(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # the one before it may have ended in the middle of a turn
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
        """The next turn of the event loop has come."""
        self._left = MOST
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            if not turn.done():  # a request may be cancelled while it waits
                turn.set_result(None)
                self._left -= 1
        if self._left < MOST:
            loop.call_soon(self._turn, loop)
