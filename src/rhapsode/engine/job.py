"""The life of one request: queued, preparing, speaking, over. It ends exactly once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rhapsode.engine.clock import clock_s
from rhapsode.engine.gate import EndGate
from rhapsode.engine.script import SpeechScript
from rhapsode.engine.speech import Speech
from rhapsode.errors import Aborted, EmptyAudio, RhapsodeError
from rhapsode.types import AudioChunk, FinishReason, Outcome, Samples, SpeechQuality, SpeechRequest

if TYPE_CHECKING:
    from rhapsode.alignment.track import WordTrack
    from rhapsode.alignment.words import BookmarkTime, WordTime


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
        self.track: WordTrack | None = None
        """The alignment of its audio; None if the request needs none."""
        self.gate: EndGate | None = None
        """Holds back audio that may be cut; None without end detection."""
        self.frame_hz: float | None = None
        self._sample_rate = sample_rate
        self._on_over, self._on_free = on_over, on_free
        self._lock = threading.Lock()
        self._holders: set[str] = set()
        self._created_s = clock_s()
        self._admitted_s = self._first_audio_s = 0.0
        self._last_chunk_s = self._dry_at_s = self._longest_gap_s = 0.0
        self._samples = self._chunks = self._underruns = 0
        self._ran_away: RhapsodeError | None = None
        self._quality: SpeechQuality | None = None

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
        (self.speech.push if self.gate is None else self.gate.put)(chunk)
        if self.track is not None:
            self.track.hear(chunk.samples)

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
        """Ends the request with success. Empty audio is an error instead."""
        if self._samples == 0:
            self.fail(EmptyAudio("the model ended without saying anything; try another text or seed."))
        elif self.track is not None:
            self.track.finish()  # `aligned` follows, after the last words
        else:
            self._end(Life.FINISHED, self.reason, None)

    def run_away(self, error: RhapsodeError) -> None:
        """Called if the speech did not end in time: an error, unless the alignment finds that all words were said."""
        if self.gate is None:
            self.fail(error)
        else:
            self._ran_away = error

    # --- what the alignment tells, in the aligner's thread ---

    def heard(self, seconds: float) -> None:
        if self.gate is not None:
            self.gate.heard(seconds)

    def found(self, words: tuple[WordTime, ...]) -> None:
        """Hands the times of words to the listener, if the request asked for them."""
        self._tell(words=words)

    def reached(self, bookmarks: tuple[BookmarkTime, ...]) -> None:
        """Hands the times of bookmarks to the listener, if the request asked for those of words."""
        self._tell(bookmarks=bookmarks)

    def _tell(self, **times: Any) -> None:
        if self.request.word_timestamps and not self.over:
            nothing = np.zeros((self.speech.channels, 0), np.float32)
            self.speech.push(AudioChunk(nothing, self._sample_rate, self._chunks, self.pace, **times))

    def said(self, end_s: float, quality: SpeechQuality) -> None:
        """Cuts the audio after its last word, and ends the request."""
        if self.gate is None or self.over:
            return
        ended_s = self.gate.cut(end_s, self.script.tail_s)
        with self._lock:
            self._samples = round(ended_s * self._sample_rate)
            self.frames = round(ended_s * self.frame_hz) if self.frame_hz else self.frames
            self._quality = replace(quality, ended_early=True)
        self._end(Life.FINISHED, FinishReason.STOP, None)

    def aligned(self, quality: SpeechQuality) -> None:
        """Ends the request once all of its audio is aligned."""
        if self.gate is not None:
            self.gate.open()
        self._quality = quality
        if self._ran_away is not None:
            self.fail(self._ran_away)
        else:
            self._end(Life.FINISHED, self.reason, None)

    def misaligned(self, error: RhapsodeError) -> None:
        self.fail(error)

    # --- the end ---

    def fail(self, error: RhapsodeError) -> None:
        self._end(Life.FAILED, FinishReason.FAILED, error)

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

    def _end(self, life: Life, reason: FinishReason, error: RhapsodeError | None) -> None:
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
                underruns=self._underruns,
                longest_gap_s=self._longest_gap_s,
                error=error,
                quality=self._quality,
            )
        if self.track is not None:
            self.track.drop()
        self._on_over(self)  # first, so that the outcome is recorded when the listener gets the end
        self.speech.end(self.outcome, error)
