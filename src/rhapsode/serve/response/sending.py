"""The time limit of a send to a client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType

from rhapsode.errors import TimedOut


class Stalled(TimedOut):
    """The client does not read what is sent to it."""


class Sending:
    """The time limit of one send to a client. A plain class, because every chunk needs one."""

    def __init__(self, until_s: float, on_end: Callable[[float], None]) -> None:
        self._begun_s = time.monotonic()
        self._timeout = asyncio.timeout(max(0.0, until_s - self._begun_s))
        self._on_end = on_end

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._on_end(time.monotonic() - self._begun_s)
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise Stalled("the client did not read the audio in time.") from None
