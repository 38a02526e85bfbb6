"""Logs one line per request, with its id, as text or JSON. The text that is spoken is never logged."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import sys
import time
from collections.abc import Awaitable
from contextvars import ContextVar
from typing import Any, Protocol, TextIO

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
    """Random tokens that cannot be guessed, many from one system call: each may wait for the interpreter's lock."""

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


class TextLines(logging.Formatter):
    """Lines for people: time, level, text, fields."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
        self._second, self._time = 0, ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Returns the time of a record, which most share with the one before."""
        if (second := int(record.created)) != self._second:
            self._second, self._time = second, super().formatTime(record, datefmt)
        return self._time

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = vars(record).get("fields", {})
        tail = " ".join([f"{name}={value}" for name, value in fields.items()])
        if record.args or record.exc_info or record.stack_info:
            return f"{super().format(record)} {tail}".rstrip()
        return f"{self.formatTime(record, self.datefmt)} {record.levelname:7} {record.msg} {tail}".rstrip()


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **vars(record).get("fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _is_news(record: logging.LogRecord) -> bool:
    """Tells whether a line says something new: a stream or socket that is refused on purpose has its own line."""
    message = record.getMessage() if record.args else str(record.msg)
    return "without completing response" not in message and "without completing handshake" not in message


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes log lines; inside an event loop once per turn, because every write may wait for the interpreter's lock."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._is_due = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.stream.write(self.format(record) + self.terminator)
            if record.levelno >= logging.WARNING:
                self.flush()
            elif not self._is_due:
                self._flush_soon()
        except Exception:  # as logging does it: a line that cannot be written ends no request
            self.handleError(record)

    def flush(self) -> None:
        self._is_due = False
        super().flush()

    def _flush_soon(self) -> None:
        try:
            asyncio.get_running_loop().call_soon(self.flush)
            self._is_due = True
        except RuntimeError:  # a line of another thread
            self.flush()


def configure(log_format: str) -> None:
    """Sends our log lines, and uvicorn's, to standard error."""
    stderr = open(sys.stderr.fileno(), "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    handler = LineHandler(stderr)
    handler.setFormatter(_Json() if log_format == "json" else TextLines())
    handler.addFilter(_is_news)
    # No line says which code, thread or process it is from, so nothing has to find out.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    vars(logging).update(logAsyncioTasks=False, _srcfile=None)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("rhapsode").setLevel(logging.INFO)
