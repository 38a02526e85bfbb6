"""Wakes the listeners of an event loop: one call into the loop for all that were woken at about the same time."""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import ClassVar


class WakeUps:
    """Futures to be resolved in one event loop, from any thread."""

    _by_loop: ClassVar[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, WakeUps]] = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._lock = threading.Lock()
        self._due: list[asyncio.Future[None]] = []

    @classmethod
    def here(cls) -> WakeUps:
        """Returns those of the running event loop."""
        loop = asyncio.get_running_loop()
        found = cls._by_loop.get(loop)
        if found is None:
            found = cls._by_loop[loop] = cls(loop)
        return found

    def are_of(self, loop: asyncio.AbstractEventLoop) -> bool:
        return self._loop() is loop

    def wake(self, future: asyncio.Future[None]) -> None:
        """Resolves the future soon; one whose event loop is closed is left alone."""
        with self._lock:
            self._due.append(future)
            if len(self._due) > 1:
                return  # a call is on its way
        try:
            if (loop := self._loop()) is not None:
                loop.call_soon_threadsafe(self._resolve)
        except RuntimeError:  # it has been closed: nobody is waiting any more
            self._take()

    def _resolve(self) -> None:
        for future in self._take():
            if not future.done():
                future.set_result(None)

    def _take(self) -> list[asyncio.Future[None]]:
        with self._lock:
            due, self._due = self._due, []
        return due
