"""The life of one request: queued, preparing, speaking, over. It ends exactly once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from rhapsode.engine.clock import clock_s
from rhapsode.engine.script import SpeechScript
from rhapsode.engine.speech import Speech
from rhapsode.engine.tap import Tap
from rhapsode.errors import Aborted, EmptyAudio, RhapsodeError
from rhapsode.types import AudioChunk, FinishReason, Outcome, Samples, SpeechQuality, SpeechRequest


class Life(StrEnum):
    QUEUED = "queued"
    PREPARING = "preparing"
    SPEAKING = "speaking"
    FINISHED = "finished"
    ABORTED = "aborted"
    FAILED = "failed"


class Job:
    """The state of one request. Stages forget a job once it is `over`: finished, aborted or failed."""

    def __init__(
        self,
        request_id: str,
        request: SpeechRequest,
        sample_rate: int,
        on_over: Callable[[Job], None],
        on_free: Callable[[Job], None],
        script: SpeechScript | None = None,
        client: str = "",
    ) -> None:
        self.id = request_id
        self.client = client
        """Who sent the request: slots are shared fairly among clients."""
        self.request = request
        self.script = script or SpeechScript(request)
        self.seed = random.getrandbits(63) if request.seed is None else request.seed
        self.life = Life.QUEUED
        self.over = False
        """Finished, aborted or failed."""
        self.slot = -1
        self.frames = 0
        self.pace = 1.0
        """How many times as fast the samples delivered next are to be played."""
        self.speaker = 0
        self.reason = FinishReason.STOP
        self.outcome: Outcome | None = None
        self.speech: Speech
        self.tap: Tap | None = None
        """Takes the audio in place of the listener; None for most requests."""
        self._sample_rate = sample_rate
        self._on_over, self._on_free = on_over, on_free
        self._lock = threading.Lock()
        self._holders: set[str] = set()
        self._created_s = clock_s()
        self._admitted_s = self._prepared_s = self._first_frame_s = self._first_audio_s = 0.0
        self._last_chunk_s = self._dry_at_s = self._longest_gap_s = 0.0
        self._samples = self._chunks = self._underruns = 0

    @property
    def spoken_s(self) -> float:
        """Seconds of audio that were delivered."""
        return self._samples / self._sample_rate

    def admit(self, slot: int, holders: Iterable[str]) -> bool:
        """Takes a slot until every holder has released it; False if the request ended while it was queued."""
        with self._lock:
            if self.over:
                return False
            self.slot = slot
            self._holders = set(holders)
            self._admitted_s = clock_s()
            self.life = Life.PREPARING
            return True

    def note_prepared(self) -> None:
        """Called when the request reaches the stages that speak it."""
        self._prepared_s = self._prepared_s or clock_s()

    def note_first_frame(self) -> None:
        """Called when the host learns of the request's first frame."""
        self._first_frame_s = self._first_frame_s or clock_s()

    def deliver_silence(self, seconds: float, channels: int, is_pause: bool = False) -> None:
        """Hands so many seconds of zeros to the listener."""
        samples = np.zeros((channels, round(seconds * self._sample_rate)), np.float32)
        self.deliver(samples, is_pause)

    def deliver(self, samples: Samples | NDArray[np.int16], is_pause: bool = False) -> None:
        """Hands samples, or 16-bit numbers, to the listener: deltas in order, never after the end."""
        with self._lock:
            if self.over or samples.shape[1] == 0:
                return
            self._play(samples.shape[1] / self._sample_rate)
            self.life = Life.SPEAKING
            about = (self._sample_rate, self._chunks, self.pace, is_pause, self.speaker)
            make: Callable[..., AudioChunk] = AudioChunk.of_pcm16 if samples.dtype == np.int16 else AudioChunk
            chunk = make(samples, *about)
            self._chunks += 1
            self._samples += samples.shape[1]
        (self.tap or self.speech).push(chunk)

    def _play(self, audio_s: float) -> None:
        """Updates the counts of gaps and underruns, for a listener that plays from the first chunk on."""
        now_s = clock_s()
        if self._chunks:
            self._longest_gap_s = max(self._longest_gap_s, now_s - self._last_chunk_s)
            self._underruns += now_s > self._dry_at_s
        else:
            self._first_audio_s = now_s
        self._last_chunk_s = now_s
        self._dry_at_s = max(self._dry_at_s, now_s) + audio_s

    def finish(self) -> None:
        """Called when the stages have delivered everything. Empty audio is an error."""
        if self._samples == 0:
            self.fail(EmptyAudio("the model ended without saying anything; try another text or seed."))
        elif self.tap is not None:
            self.tap.finish()  # it completes the request
        else:
            self.complete()

    def run_away(self, error: RhapsodeError) -> None:
        """Called if the speech did not end in time: an error, unless a tap hears that all was said."""
        (self.fail if self.tap is None else self.tap.run_away)(error)

    # --- the end ---

    def complete(
        self, quality: SpeechQuality | None = None, ended_s: float | None = None, frames: int | None = None
    ) -> None:
        """Ends the request with success. `ended_s`, `frames`: how long its speech is, where less was heard than was
        delivered."""
        with self._lock:
            if self.over:
                return
            reason = self.reason if ended_s is None else FinishReason.STOP
            self._samples = self._samples if ended_s is None else round(ended_s * self._sample_rate)
            self.frames = self.frames if frames is None else frames
        self._end(Life.FINISHED, reason, None, quality)

    def fail(self, error: RhapsodeError, quality: SpeechQuality | None = None) -> None:
        self._end(Life.FAILED, FinishReason.FAILED, error, quality)

    def abort(self) -> None:
        self._end(Life.ABORTED, FinishReason.ABORTED, Aborted("the request was aborted."))

    def release(self, holder: str) -> None:
        """Called by a stage that has dropped this job; when the last one has, the slot is free."""
        with self._lock:
            if holder not in self._holders:
                return
            self._holders.discard(holder)
            last = not self._holders
        if last:
            self._on_free(self)

    def _end(
        self, life: Life, reason: FinishReason, error: RhapsodeError | None, quality: SpeechQuality | None = None
    ) -> None:
        with self._lock:
            if self.over:
                return
            self.life, self.over = life, True
            now_s = clock_s()
            self.outcome = Outcome(
                request_id=self.id,
                finish_reason=reason,
                audio_s=self.spoken_s,
                frames=self.frames,
                queued_s=(self._admitted_s or now_s) - self._created_s,
                first_audio_s=self._first_audio_s - self._created_s if self._chunks else None,
                total_s=now_s - self._created_s,
                prepared_s=self._since_created(self._prepared_s),
                first_frame_s=self._since_created(self._first_frame_s),
                underruns=self._underruns,
                longest_gap_s=self._longest_gap_s,
                error=error,
                quality=quality,
            )
        if self.tap is not None:
            self.tap.drop()
        self._on_over(self)  # first, so that the outcome is recorded when the listener gets the end
        self.speech.end(self.outcome, error)

    def _since_created(self, at_s: float) -> float | None:
        return at_s - self._created_s if at_s else None
