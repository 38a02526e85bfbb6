"""Identifies the trace of the current request, for log lines."""

from __future__ import annotations

from contextvars import ContextVar

trace_id: ContextVar[str] = ContextVar("trace_id", default="")
