"""A question to the engine's process."""

from __future__ import annotations

import asyncio
from typing import Any

from rhapsode.errors import RhapsodeError
from rhapsode.waiting.wake_ups import WakeUps


class Question:
    """Something asked of the engine's process, for whose answer a coroutine waits."""

    def __init__(self) -> None:
        self._wake_ups = WakeUps.here()
        self._woken = asyncio.get_running_loop().create_future()
        self._answer: Any = None

    def answer(self, answer: Any) -> None:
        self._answer = answer
        self._wake_ups.wake(self._woken)

    async def get(self) -> Any:
        await self._woken
        if isinstance(self._answer, RhapsodeError):
            raise self._answer
        return self._answer
