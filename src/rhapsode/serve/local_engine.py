"""The interface through which a server uses an engine, and the engine that runs in the server's own process."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from rhapsode.engine import Load, Speech
from rhapsode.serve.fair_threads import FairThreads
from rhapsode.text.front_end import QUICK_CHARS
from rhapsode.types import Clip, SpeechRequest

if TYPE_CHECKING:
    from rhapsode.engine import Engine

TEXT_THREADS = 4
TEXT_THREADS_EACH = 1
"""Of one client, whose requests so keep their order."""


class ServedEngine(Protocol):
    """The methods that a server calls on an engine, which runs in the server's process or in another. The `Speech` that
    `submit` returns gives the audio of a request, accepts more text for it and aborts it."""

    @property
    def is_lost(self) -> bool:
        """Whether the engine has ended although the server did not stop it, for example because its process died."""

    async def submit(self, request: SpeechRequest, request_id: str, client: str = "") -> Speech:
        """Starts a request of a client, or queues it. Raises an error if the request is not valid or there is no room
        for it."""

    async def embed(self, clip: Clip) -> tuple[float, ...]:
        """Returns the speaker embedding of a recording."""

    def load(self) -> Load:
        """Returns how many requests run and are queued, and how much memory they use."""

    async def stop(self) -> None:
        """Ends all requests, and frees the memory of the model."""


def is_quick(engine: Engine, request: SpeechRequest) -> bool:
    """Returns whether the text of a request is prepared so fast that the calling thread can do it itself."""
    is_aligned = request.word_timestamps or request.end_detection or engine.deployment.alignment.end_detection
    has_more = request.lexicon or request.segments
    return len(request.text) <= QUICK_CHARS and not has_more and (engine.alignment.is_loaded or not is_aligned)


def text_threads(engine: Engine) -> FairThreads:
    """Returns the threads that prepare long texts. As many may wait for them as may run and wait for their turn."""
    limits = engine.deployment.limits
    waiting = limits.slots + limits.max_queue
    return FairThreads("rhapsode-text", "texts", threads=TEXT_THREADS, each=TEXT_THREADS_EACH, waiting=waiting)


class LocalEngine:
    """An engine that runs in the server's process."""

    is_lost = False

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._texts = text_threads(engine)

    async def submit(self, request: SpeechRequest, request_id: str, client: str = "") -> Speech:
        if is_quick(self.engine, request):
            return self.engine.submit(request, request_id, client=client)
        script = await asyncio.wrap_future(self._texts.submit(client, self.engine.read, request))
        return self.engine.submit(script, request_id, client=client)

    async def embed(self, clip: Clip) -> tuple[float, ...]:
        return await asyncio.to_thread(self.engine.embed, clip)

    def load(self) -> Load:
        return self.engine.load()

    async def stop(self) -> None:
        stopper = ThreadPoolExecutor(1, "stop-engine")
        try:
            await asyncio.get_running_loop().run_in_executor(stopper, self._stop)
        finally:
            stopper.shutdown()  # until its thread has ended it may hold the engine, whose memory is wanted back

    def _stop(self) -> None:
        self._texts.close()
        self.engine.stop()
