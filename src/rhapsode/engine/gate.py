"""Holds back audio that is not aligned yet, so that a request's audio can be cut after the last word."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rhapsode.types import AudioChunk, Samples

AHEAD_S = 0.2
"""Audio passes up to this far beyond what is aligned, so that a listener who plays it notices no delay."""
FADE_S = 0.01


class EndGate:
    """Passes chunks from the pipeline to the listener, in order. May be called from any thread."""

    def __init__(self, push: Callable[[AudioChunk], None], sample_rate: int) -> None:
        self._push = push
        self._ahead = round(AHEAD_S * sample_rate)
        self._fade = round(FADE_S * sample_rate)
        self._rate = sample_rate
        self._held: deque[AudioChunk] = deque()
        self._passed = 0  # samples
        self._until = self._ahead
        self._is_cut = False
        self._last: AudioChunk | None = None
        self._lock = threading.Lock()

    def put(self, chunk: AudioChunk) -> None:
        """Adds the next chunk, and passes on what may pass."""
        with self._lock:
            if not self._is_cut:
                self._held.append(chunk)
                self._release()

    def heard(self, seconds: float) -> None:
        """Notes that all audio up to here has been aligned, and lets it pass."""
        with self._lock:
            self._until = max(self._until, round(seconds * self._rate) + self._ahead)
            self._release()

    def open(self) -> None:
        """Lets all audio pass."""
        self.heard(float(2**31))

    def cut(self, end_s: float, pause_s: float = 0.0) -> float:
        """Lets audio pass up to `end_s`, then a pause, and drops all later audio. Returns how long the audio is."""
        with self._lock:
            self._until = max(round(end_s * self._rate), self._passed)
            self._release(fade=True)
            if pause_s and self._last is not None:
                silence = np.zeros((self._last.channels, round(pause_s * self._rate)), np.float32)
                self._pass(replace(self._last, samples=silence, pcm16=None, is_pause=True))
            self._held.clear()
            self._is_cut = True
            return self._passed / self._rate

    def _release(self, fade: bool = False) -> None:
        while self._held and self._passed < self._until:
            chunk = self._held.popleft()
            room = self._until - self._passed
            if chunk.samples.shape[1] > room:
                self._held.appendleft(replace(chunk, samples=chunk.samples[:, room:], pcm16=None))
                chunk = replace(chunk, samples=chunk.samples[:, :room], pcm16=None)
                if fade:
                    chunk = replace(chunk, samples=_faded(chunk.samples, self._fade), pcm16=None)
            self._pass(chunk)

    def _pass(self, chunk: AudioChunk) -> None:
        self._passed += chunk.samples.shape[1]
        self._last = chunk
        self._push(chunk)


def _faded(samples: Samples, count: int) -> Samples:
    samples = samples.copy()
    count = min(count, samples.shape[1])
    samples[:, samples.shape[1] - count :] *= np.linspace(1.0, 0.0, count, dtype=np.float32)
    return samples
