"""Limits how many bytes of a request are read. They are counted as they arrive, whatever the headers say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rhapsode.config.server import ServerConfig
from rhapsode.errors import Busy, RhapsodeError
from rhapsode.serve.budget import Budget
from rhapsode.serve.elevenlabs.errors import is_elevenlabs
from rhapsode.serve.request.header import header
from rhapsode.serve.response.errors import BodyTooLarge, error_response

UPLOADS, DETECT = "/v1/audio/voices", "/v1/audio/detect"
SPEECH = ("/v1/audio/speech", "/v1/audio/speech/batch")
SMALL_BYTES = 2**16
LARGE_BODIES = 4  # of the largest size, in memory at once
LINGER_S, LINGER_BYTES = 1.0, 2**24


class BodyLimit:
    """Answers 413 as soon as a body is known to be too large, and 429 when all bodies in memory together are."""

    def __init__(self, app: ASGIApp, config: ServerConfig, takes_references: bool) -> None:
        self._app = app
        json_bytes = min(config.max_json_bytes, config.max_body_bytes)
        speech_bytes = config.max_body_bytes if takes_references else json_bytes
        self._limits = dict.fromkeys((UPLOADS, DETECT), config.max_body_bytes) | dict.fromkeys(SPEECH, speech_bytes)
        self._json_bytes = json_bytes
        self._budget = Budget(LARGE_BODIES * config.max_body_bytes, "requests")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limits.get(scope["path"], self._json_bytes if is_elevenlabs(scope) else SMALL_BYTES)
        read = held = 0
        refused: RhapsodeError | None = None

        async def count() -> Message:
            nonlocal read, held, refused
            message = await receive()
            size = len(message.get("body", b""))
            read += size
            if read > limit:
                refused = _too_large(limit)
                raise refused
            try:
                self._budget.take(size)
                held += size
            except Busy as error:
                refused = error
                raise
            return message

        def linger(message: Message) -> Awaitable[None]:
            """Sends a message. After a refusal it then reads on for a moment, since closing at once could reset the
            connection before the client has read the answer."""
            if refused is None or message["type"] != "http.response.body":
                return send(message)
            return send_and_linger(message)

        async def send_and_linger(message: Message) -> None:
            await send({**message, "more_body": True})
            await _discard(receive, limit + LINGER_BYTES)
            await send({"type": "http.response.body", "body": b""})

        try:
            length = header(scope, b"content-length")
            if (length.isdecimal() and len(length) < 20 and int(length) > limit) or len(length) >= 20:
                refused = _too_large(limit)
                await error_response(refused)(scope, receive, linger)
                return
            await self._app(scope, count, linger)
        finally:
            self._budget.give_back(held)


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
