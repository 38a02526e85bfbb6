"""Log lines as text or JSON, on standard error."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any, TextIO

from rhapsode.serve.observe.trace_id import trace_id


class TextLines(logging.Formatter):
    """Formats log lines for people: time, level, text, fields."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
        self._second, self._time = 0, ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Returns the time of a record. It is formatted once per second, since most records share it."""
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
        if traced := trace_id.get():
            line["trace_id"] = traced
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _is_news(record: logging.LogRecord) -> bool:
    """Returns whether to keep a line. uvicorn also complains about streams and sockets that the server ends on purpose,
    which have log lines of their own."""
    message = record.getMessage() if record.args else str(record.msg)
    return "without completing response" not in message and "without completing handshake" not in message


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes log lines. Inside an event loop they are flushed once per iteration of the loop, because every write may
    wait for the interpreter's lock."""

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
        except Exception:  # as `logging` itself does: a line that cannot be written must not fail a request
            self.handleError(record)

    def flush(self) -> None:
        self._is_due = False
        super().flush()

    def _flush_soon(self) -> None:
        try:
            asyncio.get_running_loop().call_soon(self.flush)
            self._is_due = True
        except RuntimeError:  # this thread runs no event loop
            self.flush()


def configure(log_format: str) -> None:
    """Sends our log lines, and uvicorn's, to standard error."""
    stderr = open(sys.stderr.fileno(), "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    handler = LineHandler(stderr)
    handler.setFormatter(_Json() if log_format == "json" else TextLines())
    handler.addFilter(_is_news)
    # No line names its source code, thread or process, so `logging` need not look them up.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    vars(logging).update(logAsyncioTasks=False, _srcfile=None)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("rhapsode").setLevel(logging.INFO)
