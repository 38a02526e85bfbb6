"""Identifies the caller of the current request, by a hash of its API key."""

from __future__ import annotations

import hashlib
from contextvars import ContextVar

caller: ContextVar[str | None] = ContextVar("caller", default=None)


def key_id(key: bytes) -> str:
    """Returns a short hash that identifies an API key in the audit log without revealing it."""
    return hashlib.sha256(key).hexdigest()[:16]
