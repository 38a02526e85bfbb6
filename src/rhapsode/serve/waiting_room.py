"""Requests that wait for a model to load: a bounded number, with places that clients share."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from rhapsode.errors import Busy
from rhapsode.waiting.line import WaitingLine

T = TypeVar("T")
RETRY_S = 5.0


@dataclass(eq=False)
class _Visitor:
    client: str
    task: asyncio.Task[Any]
    is_displaced: bool = False


class WaitingRoom:
    """In a full room, the newest request of the client who has most there gives way to one of a client who has less."""

    def __init__(self, most: int, model: str = "the model") -> None:
        self._most = most
        self._model = model
        self._line = WaitingLine[_Visitor]()

    def __len__(self) -> int:
        return len(self._line)

    async def wait(self, client: str, what: Coroutine[Any, Any, T]) -> T:
        """Returns the result of what is waited for. Raises `Busy` if the room is full, or if the request gives way."""
        displaced = None
        if len(self._line) >= self._most and (displaced := self._line.displaced_by(client)) is None:
            what.close()
            raise self._full()
        task: asyncio.Task[T] = asyncio.create_task(what, name="wait-for-model")
        visitor = _Visitor(client, task)
        if displaced is not None:
            self._line.remove(displaced)
            displaced.is_displaced = True
            displaced.task.cancel()
        self._line.add(visitor)
        try:
            return await task
        except asyncio.CancelledError:
            if visitor.is_displaced:
                raise self._full() from None
            raise
        finally:
            self._line.remove(visitor)

    def _full(self) -> Busy:
        return Busy(
            f"{self._most} requests wait until {self._model} is loaded, and no more can.", retry_after_s=RETRY_S
        )
