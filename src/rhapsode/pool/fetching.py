"""Fetches a checkpoint before its model is loaded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from rhapsode.models.registry import find
from rhapsode.pool.memory import expected_bytes


def fetched_bytes(model: str) -> int:
    """Downloads what is missing of a checkpoint; returns an estimate of the memory that its model will take."""
    return expected_bytes(find(model).checkpoint)


async def apart(work: Callable[[], int]) -> int:
    """Runs work in a thread that the end of the server does not wait for, as it may be a download."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[int] = loop.create_future()

    def settle(value: int | BaseException) -> None:
        if result.done():  # nobody waits any more
            return
        if isinstance(value, BaseException):
            result.set_exception(value)
        else:
            result.set_result(value)

    def run() -> None:
        try:
            value: int | BaseException = work()
        except BaseException as error:
            value = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value)

    threading.Thread(target=run, name="rhapsode-fetch", daemon=True).start()
    return await result
