"""Work on data of any size, without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from rhapsode.serve.request.schemas import SMALL_BYTES

Result = TypeVar("Result")


async def apart(size: int, work: Callable[[], Result]) -> Result:
    """Runs work on data of this size: in a thread if the event loop would be blocked for too long."""
    return work() if size <= SMALL_BYTES else await asyncio.to_thread(work)
