"""The listener's end of a request: chunks out, text in, abort. Works with threads and with asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Protocol, Self

from rhapsode.errors import RhapsodeError, TimedOut
from rhapsode.types import AudioChunk, Outcome
from rhapsode.waiting.wake_ups import WakeUps

STALLED_S = 0.02
"""How often to check whether a listener who stopped reading reads again."""


def unread(timeout_s: float) -> TimedOut:
    """Returns the error of a request whose listener does not read."""
    return TimedOut(f"the audio was not read for {timeout_s:g} s.")


class Controls(Protocol):
    """What a listener may ask of the engine."""

    def append(self, request_id: str, text: str, final: bool = False) -> None: ...
    def abort(self, request_id: str) -> None: ...


class Speech:
    """Audio as it is spoken: iterate with `for` or `async for`. A failure is raised after the last good chunk.

    Chunks wait here until they are read, up to `max_unread_s` seconds of audio: then this request pauses, and no other
    does. Leaving a `with` block, also by `break` or an error, aborts a request that is still running.
    """

    def __init__(
        self, request_id: str, sample_rate: int, channels: int, controls: Controls, max_unread_s: float
    ) -> None:
        self.id = request_id
        self.sample_rate = sample_rate
        self.channels = channels
        self.outcome: Outcome | None = None
        self._controls = controls
        self._chunks: deque[AudioChunk] = deque()
        self._unread_s = 0.0
        self._max_unread_s = max_unread_s
        self._error: RhapsodeError | None = None
        self._lock = threading.RLock()
        self._changed: threading.Condition | None = None  # for threads that wait
        self._blocked = 0  # how many threads wait
        self._wake_ups: WakeUps | None = None  # of the event loop that waited last
        self._waiting: list[tuple[WakeUps, asyncio.Future[None]]] = []

    # --- the listener's side ---

    def append(self, text: str) -> None:
        """Appends text to a request that was submitted with `text_open=True`."""
        self._controls.append(self.id, text)

    def finish_text(self) -> None:
        """Closes the text: no more will be appended."""
        self._controls.append(self.id, "", final=True)

    def abort(self) -> None:
        """Stops the request; everything it holds is freed within one frame."""
        self._controls.abort(self.id)

    @property
    def is_ready(self) -> bool:
        """Whether the next chunk, or the end, has arrived."""
        return bool(self._chunks) or self.outcome is not None

    def __iter__(self) -> Iterator[AudioChunk]:
        while (chunk := self.get()) is not None:
            yield chunk

    async def __aiter__(self) -> AsyncIterator[AudioChunk]:
        while (chunk := await self.get_async()) is not None:
            yield chunk

    def get(self, timeout_s: float | None = None) -> AudioChunk | None:
        """Waits for the next chunk; None at the end."""
        with self._lock:
            if not self.is_ready:
                self._blocked += 1
                changed = self._changed = self._changed or threading.Condition(self._lock)
                try:
                    if not changed.wait_for(lambda: self.is_ready, timeout_s):
                        raise TimeoutError
                finally:
                    self._blocked -= 1
            return self._take()

    async def get_async(self) -> AudioChunk | None:
        """Waits for the next chunk without blocking the event loop; None at the end."""
        while True:
            with self._lock:
                if self._chunks or self.outcome is not None:
                    return self._take()
                loop = asyncio.get_running_loop()
                if self._wake_ups is None or not self._wake_ups.are_of(loop):
                    self._wake_ups = WakeUps.here()
                woken = loop.create_future()
                self._waiting.append((self._wake_ups, woken))
            await woken

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    # --- the engine's side ---

    @property
    def full(self) -> bool:
        """Whether as much audio is unread as is allowed."""
        return self._unread_s >= self._max_unread_s

    def push(self, chunk: AudioChunk) -> None:
        with self._lock:
            self._chunks.append(chunk)
            self._unread_s += chunk.duration_s
            waiting = self._told()
        for wake_ups, future in waiting:
            wake_ups.wake(future)

    def end(self, outcome: Outcome, error: RhapsodeError | None) -> None:
        with self._lock:
            self.outcome, self._error = outcome, error
            waiting = self._told()
        for wake_ups, future in waiting:
            wake_ups.wake(future)

    def _told(self) -> list[tuple[WakeUps, asyncio.Future[None]]]:
        """Wakes the waiting threads, and returns the futures to wake."""
        if self._changed is not None and self._blocked:
            self._changed.notify_all()
        waiting, self._waiting = self._waiting, []
        return waiting

    def _take(self) -> AudioChunk | None:
        if self._chunks:
            chunk = self._chunks.popleft()
            self._unread_s = self._unread_s - chunk.duration_s if self._chunks else 0.0
            return chunk
        if self._error is not None:
            raise self._error
        return None
