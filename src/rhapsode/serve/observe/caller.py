"""Identifies the caller of the current request, by a hash of its API key."""

from __future__ import annotations

from contextvars import ContextVar

caller: ContextVar[str | None] = ContextVar("caller", default=None)
