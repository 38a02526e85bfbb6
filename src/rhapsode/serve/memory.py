"""Returns freed memory to the system when the server is idle: malloc would keep what the busiest moment needed."""

from __future__ import annotations

import asyncio
import ctypes
import sys
from collections.abc import Callable

IDLE_S = 1.0
M_ARENA_MAX = -8
"""The number of this setting in glibc's `malloc.h`."""


class Tidier:
    """Trims the heap once the server has been idle for `IDLE_S`, so that running requests are not slowed down."""

    def __init__(self, is_busy: Callable[[], bool]) -> None:
        self._is_busy = is_busy
        self._timer: asyncio.TimerHandle | None = None
        self._used_s = 0.0

    def request_ended(self) -> None:
        loop = asyncio.get_running_loop()
        self._used_s = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(IDLE_S, self._tidy)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tidy(self) -> None:
        loop = asyncio.get_running_loop()
        left_s = self._used_s + IDLE_S - loop.time()
        self._timer = loop.call_later(left_s, self._tidy) if left_s > 0 else None
        if self._timer is None and not self._is_busy():
            loop.run_in_executor(None, trim)


def use_one_heap() -> None:
    """Makes all threads share one heap. To be called before there are threads.

    glibc gives threads up to eight heaps per core, of which `trim` cannot return the free end: up to 64 MB each.
    """
    if (mallopt := _of_glibc("mallopt")) is not None:
        mallopt(M_ARENA_MAX, 1)


def trim() -> None:
    """Gives freed memory of the heap back to the system. Does nothing where the C library is not glibc."""
    if (malloc_trim := _of_glibc("malloc_trim")) is not None:
        malloc_trim(0)


def _of_glibc(name: str) -> Callable[..., int] | None:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
