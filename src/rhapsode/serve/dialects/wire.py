"""Reads JSON for a translation, in bounded time. What it cannot read passes unchanged: our own routes refuse it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypeVar

from rhapsode.errors import RhapsodeError
from rhapsode.serve.request.schemas import SMALL_BYTES
from rhapsode.serve.request.shape import check_shape

Result = TypeVar("Result")


def load_object(data: bytes) -> dict[str, Any] | None:
    """Returns a JSON object; None if it is none, or too complex to be read."""
    try:
        check_shape(data)
        value = json.loads(data)
    except (ValueError, RecursionError, RhapsodeError):
        return None
    return value if isinstance(value, dict) else None


async def apart(size: int, work: Callable[[], Result]) -> Result:
    """Runs work on data of this size: in a thread if the event loop would be blocked for too long."""
    return work() if size <= SMALL_BYTES else await asyncio.to_thread(work)
