"""Listens to the speech of requests that ask when each word is said, or that are to end after the last one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rhapsode.alignment.aligner import Aligner
from rhapsode.alignment.loading import load_acoustic
from rhapsode.alignment.text import WordText
from rhapsode.alignment.words import BookmarkTime, WordTime
from rhapsode.config import Deployment
from rhapsode.engine.gate import EndGate
from rhapsode.engine.job import Job
from rhapsode.errors import InvalidRequest, RhapsodeError
from rhapsode.text.front_end import TextSettings
from rhapsode.types import AudioChunk, ModelInfo, SpeechQuality, SpeechRequest


class Alignment:
    """Taps the requests that ask for the times of words or for the detection of their end."""

    def __init__(self, deployment: Deployment, info: ModelInfo) -> None:
        self._aligner = Aligner(lambda: load_acoustic(deployment.alignment, deployment.device))
        self._detects_ends = deployment.alignment.end_detection
        self._info = info

    @property
    def is_loaded(self) -> bool:
        """Whether `words_of` and `tap` return at once."""
        return self._aligner.is_loaded

    def load(self) -> None:
        """Loads the acoustic model, if it is not loaded yet."""
        self._aligner.load()

    def words_of(self, request: SpeechRequest, settings: TextSettings) -> WordText | None:
        """Returns the words to look for in the audio of a request; `None` if nobody asks for them."""
        if not request.word_timestamps and not self._ends(request):
            return None
        try:
            words = self._aligner.text(settings)
            words.check(request.text)
        except InvalidRequest:
            if request.word_timestamps is True or request.end_detection:
                raise
            return None  # the request, or the deployment, asks only where text can be aligned
        if request.word_timestamps == "auto":
            words.accept_all()  # of text that is still to come
        return words

    def tap(self, job: Job, words: WordText) -> None:
        """Has the audio of a request pass its alignment."""
        job.tap = AlignedSpeech(job, words, self._aligner, self._info, self._ends(job.request))

    def stop(self) -> None:
        self._aligner.stop()

    def _ends(self, request: SpeechRequest) -> bool:
        return self._detects_ends if request.end_detection is None else request.end_detection


class AlignedSpeech:
    """The alignment of one request: a tap for its audio, and the listener of its `WordTrack`, in the aligner's thread.

    With end detection, audio that may be cut is held back.
    """

    def __init__(self, job: Job, words: WordText, aligner: Aligner, info: ModelInfo, ends: bool) -> None:
        rate = job.speech.sample_rate
        self._job = job
        self._frame_hz = info.frame_hz
        self._gate = EndGate(job.speech.push, rate) if ends else None
        self._last = AudioChunk(np.zeros((job.speech.channels, 0), np.float32), rate)
        self._chunks = 0
        self._ran_away: RhapsodeError | None = None
        self._track = aligner.open(words, rate, self, ends)

    # --- the tap ---

    def push(self, chunk: AudioChunk) -> None:
        self._last, self._chunks = chunk, self._chunks + 1
        (self._job.speech.push if self._gate is None else self._gate.put)(chunk)
        self._track.hear(chunk.samples)

    def finish(self) -> None:
        self._track.finish()  # `aligned` follows, after the last words

    def run_away(self, error: RhapsodeError) -> None:
        if self._gate is None:
            self._job.fail(error)
        else:
            self._ran_away = error

    def drop(self) -> None:
        self._track.drop()

    # --- what the track tells ---

    def heard(self, seconds: float) -> None:
        if self._gate is not None:
            self._gate.heard(seconds)

    def found(self, words: tuple[WordTime, ...]) -> None:
        self._tell(words=words)

    def reached(self, bookmarks: tuple[BookmarkTime, ...]) -> None:
        self._tell(bookmarks=bookmarks)

    def said(self, end_s: float, quality: SpeechQuality) -> None:
        """Cuts the audio after its last word, and ends the request."""
        if self._gate is None or self._job.over:
            return
        ended_s = self._gate.cut(end_s, self._job.script.tail_s)
        frames = round(ended_s * self._frame_hz) if self._frame_hz else None
        self._job.complete(replace(quality, ended_early=True), ended_s, frames)

    def aligned(self, quality: SpeechQuality) -> None:
        if self._gate is not None:
            self._gate.open()
        if self._ran_away is not None:
            self._job.fail(self._ran_away, quality)
        else:
            self._job.complete(quality)

    def misaligned(self, error: RhapsodeError) -> None:
        self._job.fail(error)

    def _tell(self, **times: Any) -> None:
        """Hands the times of words or bookmarks to the listener, if the request asked for those of words."""
        if self._job.request.word_timestamps and not self._job.over:
            nothing = np.zeros((self._last.channels, 0), np.float32)
            self._job.speech.push(AudioChunk(nothing, self._last.sample_rate, self._chunks, self._last.pace, **times))
