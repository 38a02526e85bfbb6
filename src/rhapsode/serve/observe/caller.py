"""Who makes the current request: a hash of its API key."""

from __future__ import annotations

import hashlib
from contextvars import ContextVar

caller: ContextVar[str | None] = ContextVar("caller", default=None)


def key_id(key: bytes) -> str:
    """Returns what stands for an API key in the audit log."""
    return hashlib.sha256(key).hexdigest()[:16]
