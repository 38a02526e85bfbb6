"""Wakes listeners that wait in an event loop, with one call into the loop for all that are woken together."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol


class Woken(Protocol):
    """Receives wake-ups, to pass them on to a waiting thread or event loop."""

    def wake(self, *items: Any) -> None: ...


class _Held(threading.local):
    """Wake-ups that wait for the end of this thread's `held` block, by receiver; `None` outside such a block."""

    due: dict[Woken, list[Any]] | None = None


_held = _Held()


@contextmanager
def held() -> Iterator[None]:
    """Delays all wake-ups of this thread until the block ends.

    A call into an event loop is a system call, which releases Python's lock to other threads.
    """
    _held.due = {}
    try:
        yield
    finally:
        due, _held.due = _held.due, None
        for woken, items in due.items():
            woken.wake(*items)


def hold(woken: Woken, items: Sequence[Any]) -> bool:
    """Delays a wake-up until the `held` block of this thread ends; returns false outside such a block."""
    if _held.due is None:
        return False
    _held.due.setdefault(woken, []).extend(items)
    return True


class WakeUps:
    """Futures to be resolved in one event loop, from any thread."""

    _by_loop: ClassVar[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, WakeUps]] = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._lock = threading.Lock()
        self._due: list[asyncio.Future[None]] = []

    @classmethod
    def here(cls) -> WakeUps:
        """Returns the `WakeUps` of the running event loop."""
        loop = asyncio.get_running_loop()
        found = cls._by_loop.get(loop)
        if found is None:
            found = cls._by_loop[loop] = cls(loop)
        return found

    def are_of(self, loop: asyncio.AbstractEventLoop) -> bool:
        return self._loop() is loop

    def wake(self, *futures: asyncio.Future[None]) -> None:
        """Resolves futures soon, in their event loop; does nothing if that loop is closed."""
        if hold(self, futures):
            return
        with self._lock:
            is_called = bool(self._due)
            self._due += futures
            if is_called:
                return  # a call is on its way
        try:
            if (loop := self._loop()) is not None:
                loop.call_soon_threadsafe(self._resolve)
        except RuntimeError:  # the event loop has been closed: no listener waits any more
            self._take()

    def _resolve(self) -> None:
        for future in self._take():
            if not future.done():
                future.set_result(None)

    def _take(self) -> list[asyncio.Future[None]]:
        with self._lock:
            due, self._due = self._due, []
        return due
