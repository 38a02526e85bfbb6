"""Logs one line per request, with its id. The text that is spoken is never logged."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Awaitable
from contextvars import ContextVar
from typing import Protocol

from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rhapsode.serve.request.header import header
from rhapsode.serve.response.errors import InternalError, error_response

log = logging.getLogger("rhapsode.serve")
request_id: ContextVar[str] = ContextVar("request_id", default="-")

_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_QUIET = ("/health", "/ready", "/metrics", "/favicon.ico", "/web/{path:path}")


def new_id() -> str:
    return f"req-{_ids.token()}"


class _RandomIds:
    """Random tokens that cannot be guessed. Many are drawn in one system call, since each call may wait for the
    interpreter's lock."""

    SIZE, COUNT = 8, 256

    def __init__(self) -> None:
        self._unused: list[str] = []

    def token(self) -> str:
        if not self._unused:
            drawn = secrets.token_hex(self.SIZE * self.COUNT)
            self._unused = [drawn[start : start + 2 * self.SIZE] for start in range(0, len(drawn), 2 * self.SIZE)]
        return self._unused.pop()


_ids = _RandomIds()


class Answered(Protocol):
    """Counts responses."""

    def answered(self, route: str, method: str, status: int) -> None: ...


class RequestLog:
    """Gives every request an id, logs how it ended, and answers 500 to an unexpected exception."""

    def __init__(self, app: ASGIApp, metrics: Answered) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        requested = header(scope, b"x-request-id")
        current_id = requested if _SANE_ID.fullmatch(requested) else new_id()
        scope.setdefault("state", {})["request_id"] = current_id
        request_id.set(current_id)
        started_s = time.perf_counter()
        status = 0

        def send_with_id(message: Message) -> Awaitable[None]:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", current_id.encode())]
            return send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            log.exception("a request failed with an unexpected exception", extra={"fields": {"request_id": current_id}})
            if not status:
                await error_response(InternalError("something went wrong inside the server."))(
                    scope, receive, send_with_id
                )
        finally:
            found = scope.get("route")
            route = found.path if isinstance(found, Route) else "unknown"
            self._metrics.answered(route, scope["method"], status)
            level = logging.DEBUG if route in _QUIET else logging.INFO
            took_ms = round((time.perf_counter() - started_s) * 1000, 1)
            fields = {
                "request_id": current_id,
                "method": scope["method"],
                "route": route,
                "status": status,
                "ms": took_ms,
            }
            log.log(level, "request", extra={"fields": fields})
