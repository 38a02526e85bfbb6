"""The engine as a server uses it: the one of this process, and what any other has to offer."""

from __future__ import annotations

import asyncio
from typing import Protocol

from rhapsode.engine import Engine, Load, Speech
from rhapsode.models.base import SHORT_CHARS
from rhapsode.types import Clip, SpeechRequest


class ServedEngine(Protocol):
    """All that a server asks of an engine. Chunks, appended text and aborts go through `Speech`."""

    @property
    def is_lost(self) -> bool:
        """Whether it is gone without having been stopped."""

    async def submit(self, request: SpeechRequest, request_id: str) -> Speech:
        """Starts or queues a request; raises what is wrong with it."""

    async def embed(self, clip: Clip) -> tuple[float, ...]:
        """Returns the speaker embedding of a recording."""

    def load(self) -> Load:
        """Returns how full it is."""

    async def stop(self) -> None:
        """Ends what is running, and frees the memory."""


def is_quick(engine: Engine, request: SpeechRequest) -> bool:
    """Returns whether a request is read so fast that nobody waits for it."""
    is_aligned = request.word_timestamps or request.end_detection or engine.deployment.alignment.end_detection
    return len(request.text) <= SHORT_CHARS and (engine.aligner.is_loaded or not is_aligned)


class LocalEngine:
    """An engine of this process."""

    is_lost = False

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def submit(self, request: SpeechRequest, request_id: str) -> Speech:
        if is_quick(self.engine, request):
            return self.engine.submit(request, request_id)
        script = await asyncio.to_thread(self.engine.read, request)
        return self.engine.submit(script, request_id)

    async def embed(self, clip: Clip) -> tuple[float, ...]:
        return await asyncio.to_thread(self.engine.embed, clip)

    def load(self) -> Load:
        return self.engine.load()

    async def stop(self) -> None:
        await asyncio.to_thread(self.engine.stop)
