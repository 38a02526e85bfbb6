"""Log lines as text or JSON, on standard error."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from functools import partial
from typing import Any, TextIO

from rhapsode.serve.observe.trace_id import trace_id

LOADING = ("rhapsode.loading", "rhapsode.start")
"""The loggers of the steps of loading, and of how long they took."""
MODEL = "LOGGED_RHAPSODE_MODEL"
"""The environment variable with the name of the model that all lines of a process are about, and of those that it
starts, where a server has several."""
NEW_LINE = "\r\x1b[K"
"""Empties the current line of a terminal."""


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


def _name_model(model: str, record: logging.LogRecord) -> bool:
    """Adds the name that a model has in its server to the fields of a line."""
    vars(record)["fields"] = {"model": model} | vars(record).get("fields", {}) | {"model": model}
    return True


class LoadingLine:
    """The line of a terminal that says which step of loading runs, and for how long the process has."""

    def __init__(self) -> None:
        self._begun_s = time.monotonic()
        self._is_shown = False

    def next(self, record: logging.LogRecord) -> str:
        """Returns what to write for a record about loading."""
        if record.name != LOADING[0]:
            return ""  # how long a step took is for a log
        self._is_shown = True
        fields: dict[str, Any] = vars(record).get("fields", {})
        step, model = fields.get("step", record.msg), fields.get("model")
        return f"{NEW_LINE}loading{f' {model}' if model else ''}: {step}, {time.monotonic() - self._begun_s:.0f} s"

    def end(self) -> str:
        """Returns what to write before another line."""
        begin, self._is_shown = NEW_LINE if self._is_shown else "", False
        return begin


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes log lines. Inside an event loop they are flushed once per iteration of the loop, because every write may
    wait for the interpreter's lock."""

    def __init__(self, stream: TextIO, loading: LoadingLine | None = None) -> None:
        """`loading`: on a terminal the steps of loading share one line."""
        super().__init__(stream)
        self._is_due = False
        self._loading = loading

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._loading is not None and record.name in LOADING:
                self.stream.write(self._loading.next(record))
                self.flush()
                return
            begin = self._loading.end() if self._loading is not None else ""
            self.stream.write(begin + self.format(record) + self.terminator)
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
    is_for_people = log_format == "text" and stderr.isatty()
    handler = LineHandler(stderr, LoadingLine() if is_for_people else None)
    handler.setFormatter(_Json() if log_format == "json" else TextLines())
    handler.addFilter(_is_news)
    if model := os.environ.get(MODEL):
        handler.addFilter(partial(_name_model, model))
    # No line names its source code, thread or process, so `logging` need not look them up.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    vars(logging).update(logAsyncioTasks=False, _srcfile=None)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("rhapsode").setLevel(logging.INFO)
