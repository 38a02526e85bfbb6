"""Limits how many bytes of a request are read. They are counted as they arrive, whatever the headers say."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rhapsode.config.server import ServerConfig
from rhapsode.errors import Busy, RhapsodeError
from rhapsode.serve.budget import Account, Budget
from rhapsode.serve.client import client_of
from rhapsode.serve.elevenlabs.errors import ADD_VOICE, is_elevenlabs
from rhapsode.serve.request.header import header
from rhapsode.serve.response.errors import BodyTooLarge, error_response

UPLOADS, DETECT = "/v1/audio/voices", "/v1/audio/detect"
SPEECH = ("/v1/audio/speech", "/v1/audio/speech/batch")
SMALL_BYTES = 2**16
LARGE_BODIES = 4  # of the largest size, in memory at once
LARGE_BODIES_EACH = 2  # of them, of one client
LINGER_S, LINGER_BYTES = 1.0, 2**24


log = logging.getLogger("rhapsode.serve")


def uploads_of(config: ServerConfig, on_close: Callable[[], None] = lambda: None) -> Budget:
    """Returns the budget of all bodies and WebSocket messages in memory. `on_close` is called after each of them."""
    largest = config.max_body_bytes
    return Budget(LARGE_BODIES * largest, "requests", LARGE_BODIES_EACH * largest, on_close=on_close)


class CountedBody:
    """A body in the budget. Calling it gives back what the body counts."""

    def __init__(self) -> None:
        self.account: Account | None = None

    def __call__(self) -> None:
        if self.account is not None:
            self.account.close()

    def keep(self) -> None:
        """Notes that the body is in use: it is not given up."""
        if self.account is not None:
            self.account.finish()

    def offer(self, give_up: Callable[[], None], *, is_spare: bool = False) -> None:
        """Notes that `give_up` may free the body if others need room; if it is spare, before anything else."""
        if self.account is not None:
            self.account.end = give_up
            self.account.offer()
            if is_spare:
                self.account.spare()


counted_body: ContextVar[CountedBody | None] = ContextVar("counted_body", default=None)
"""The body of the current request."""


class BodyLimit:
    """Answers 413 as soon as a body is known to be too large, and 429 when all bodies in memory together are.

    A body counts until it has been read into a request, or until its answer begins: how fast the client reads that
    answer does not matter. If there is no room for a body, an unfinished one of another request may be ended, and its
    connection with it.
    """

    def __init__(self, app: ASGIApp, config: ServerConfig, takes_references: bool, uploads: Budget) -> None:
        self._app = app
        json_bytes = min(config.max_json_bytes, config.max_body_bytes)
        speech_bytes = config.max_body_bytes if takes_references else json_bytes
        self._limits = dict.fromkeys((UPLOADS, ADD_VOICE, DETECT), config.max_body_bytes) | dict.fromkeys(
            SPEECH, speech_bytes
        )
        self._json_bytes = json_bytes
        self._uploads = uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limits.get(scope["path"], self._json_bytes if is_elevenlabs(scope) else SMALL_BYTES)
        read = 0
        counted = CountedBody()
        refused: RhapsodeError | None = None
        counted_body.set(counted)

        async def count() -> Message:
            nonlocal read, refused
            message = await receive()
            size = len(message.get("body", b""))
            read += size
            if read > limit:
                refused = _too_large(limit)
                raise refused
            if size:
                account = counted.account or self._uploads.open(client_of(scope), partial(_end, scope))
                counted.account = account
                try:
                    account.hold(read)
                except Busy as error:
                    refused = error
                    raise
            if not message.get("more_body", False):
                counted.keep()
            return message

        def linger(message: Message) -> Awaitable[None]:
            """Sends a message. After a refusal it then reads on for a moment, since closing at once could reset the
            connection before the client has read the answer."""
            counted()
            if refused is None or message["type"] != "http.response.body":
                return send(message)
            return send_and_linger(message)

        async def send_and_linger(message: Message) -> None:
            await send({**message, "more_body": True})
            await _discard(receive, limit + LINGER_BYTES)
            await send({"type": "http.response.body", "body": b""})

        scope.setdefault("state", {})["release_body"] = counted
        try:
            length = header(scope, b"content-length")
            if (length.isdecimal() and len(length) < 20 and int(length) > limit) or len(length) >= 20:
                refused = _too_large(limit)
                await error_response(refused)(scope, receive, linger)
                return
            await self._app(scope, count, linger)
        finally:
            counted()


def _end(scope: Scope) -> None:
    """Ends the connection of an unfinished upload. An answer would keep its bytes in memory until it was read."""
    log.warning("an unfinished upload was ended to make room", extra={"fields": {"client": client_of(scope)}})
    scope["state"].get("reset", lambda: None)()


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is too large: at most {limit} bytes are read here.")


async def _discard(receive: Receive, limit: int) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while limit > 0:
                message = await receive()
                limit -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
