"""The two ends of one speech: `SentSpeech` in the engine's process, `ReceivedSpeech` in the server's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rhapsode.engine import Controls, Speech
from rhapsode.errors import RhapsodeError
from rhapsode.serve.process.messages import Ended, SpokenChunk
from rhapsode.types import AudioChunk, FinishReason, ModelInfo, Outcome


class SentSpeech(Speech):
    """A speech whose listener is in another process."""

    def __init__(self, send: Callable[[Any], None], on_end: Callable[[str], None], *about: Any) -> None:
        super().__init__(*about)
        self._send, self._on_end = send, on_end

    def push(self, chunk: AudioChunk) -> None:
        with self._lock:
            self._unread_s += chunk.duration_s
        self._send(SpokenChunk.of(self.id, chunk))

    def taken(self, seconds: float) -> None:
        with self._lock:
            self._unread_s -= seconds

    def end(self, outcome: Outcome, error: RhapsodeError | None) -> None:
        self.outcome = outcome
        self._on_end(self.id)
        self._send(Ended(outcome, error))


class ReceivedSpeech(Speech):
    """A speech whose audio another process makes. It reports to that process how much audio the listener has taken,
    since the engine pauses a request once too much of its audio is unread."""

    def __init__(
        self,
        request_id: str,
        info: ModelInfo,
        controls: Controls,
        max_unread_s: float,
        on_taken: Callable[[str, float], None],
    ) -> None:
        super().__init__(request_id, info.sample_rate, info.channels, controls, max_unread_s)
        self._frame_hz = info.frame_hz or 0.0
        self._on_taken = on_taken
        self._taken_s = self._audio_s = 0.0
        self._created_s = time.monotonic()
        self._first_audio_s: float | None = None

    def push(self, chunk: AudioChunk) -> None:
        self._audio_s += chunk.duration_s
        if self._first_audio_s is None:
            self._first_audio_s = time.monotonic() - self._created_s
        super().push(chunk)

    def broken_off(self, reason: FinishReason, error: RhapsodeError) -> Outcome:
        """Returns the outcome of a request that is ended in this process, without waiting for the engine."""
        frames, total_s = round(self._audio_s * self._frame_hz), time.monotonic() - self._created_s
        return Outcome(self.id, reason, self._audio_s, frames, 0.0, self._first_audio_s, total_s, error=error)

    def _take(self) -> AudioChunk | None:
        chunk = super()._take()
        if chunk is not None:
            self._taken_s += chunk.duration_s
            if self._taken_s >= self._max_unread_s / 4:
                self._on_taken(self.id, self._taken_s)
                self._taken_s = 0.0
        return chunk
