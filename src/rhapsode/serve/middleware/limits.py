"""How much of a request is read: counted while it comes, whatever its headers say."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rhapsode.serve.response.errors import BodyTooLarge, error_response


class BodyLimit:
    """Answers 413 as soon as a body is known to be larger than it may be."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        error = BodyTooLarge(f"the body is too large: at most {self._max_bytes} bytes are read.")
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and int(length) > self._max_bytes:
            await error_response(error)(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._max_bytes:
                raise error
            return message

        await self._app(scope, counted, send)
