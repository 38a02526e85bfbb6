"""Aligns one request: takes its text and its audio, and reports words with times."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

import numpy as np

from rhapsode.alignment.decided import FoundWord
from rhapsode.alignment.ending import EndWatch
from rhapsode.alignment.loudness import Loudness
from rhapsode.alignment.model import Acoustic, Floats
from rhapsode.alignment.search import WordSearch
from rhapsode.alignment.text import SoughtWord, WordText
from rhapsode.alignment.timing import WordTimes
from rhapsode.alignment.words import BookmarkTime, WordTime
from rhapsode.audio.resample import Resampler
from rhapsode.errors import RhapsodeError
from rhapsode.types import Samples, SpeechQuality

LATEST_S = 0.5
"""A word should be known when this much audio has arrived after its end."""
HELD_S = 0.04
"""The most audio that the resampler holds back."""
SHORTEST_LAG, LONGEST_LAG = 3, 15


class TrackListener(Protocol):
    """Callbacks about a request's alignment, called in the aligner's thread."""

    def heard(self, seconds: float) -> None:
        """All audio up to here has been aligned."""

    def found(self, words: tuple[WordTime, ...]) -> None:
        """These words are known now."""

    def reached(self, bookmarks: tuple[BookmarkTime, ...]) -> None:
        """The speech has reached these bookmarks."""

    def said(self, end_s: float, quality: SpeechQuality) -> None:
        """The whole text has been said, and the speech goes on: it may end here."""

    def aligned(self, quality: SpeechQuality) -> None:
        """The audio has ended, and all words have been reported."""

    def misaligned(self, error: RhapsodeError) -> None:
        """The alignment failed, because of a bug."""


class WordTrack:
    """The alignment of one request. `hear`, `finish` and `drop` may be called from any thread."""

    def __init__(
        self,
        model: Acoustic,
        text: WordText,
        sample_rate: int,
        listener: TrackListener,
        ends: bool,
        on_news: Callable[[WordTrack], None],
    ) -> None:
        """`ends`: also report where speech should end. `on_news` is called when the track has work for the aligner."""
        self.stream = model.open()
        self.listener = listener
        self.dropped = False
        spare = int((LATEST_S - HELD_S) / model.frame_s + 1e-6) - model.blocks.delay - model.late - 1
        lag = min(max(spare, SHORTEST_LAG), LONGEST_LAG)
        self._symbols = {symbol: index for index, symbol in enumerate(model.symbols)}
        self._search = WordSearch(model.symbols, lag, model.blocks, model.late)
        self._text = text
        self._times = WordTimes(model.frame_s)
        self._frame_s, self._blocks = model.frame_s, model.blocks
        self._resampler = Resampler(sample_rate, model.rate)
        self._loudness = Loudness(round(model.frame_s * model.rate))
        self._levels: Floats = np.zeros(0, np.float32)
        self._ending = EndWatch() if ends else None
        self._on_news = on_news
        self._lock = threading.Lock()
        self._waiting: list[Samples] = []
        self._sample_rate = sample_rate
        self._arrived = self._taken = 0
        self._finished = False

    # --- from any thread ---

    def hear(self, samples: Samples) -> None:
        """Takes the next samples, `[channels, samples]`."""
        with self._lock:
            self._waiting.append(samples)
            self._arrived += samples.shape[1]
            is_due = self._complete(self._arrived) > self._complete(self._taken)
        if is_due:
            self._on_news(self)

    def _complete(self, samples: int) -> int:
        """Returns how many blocks of the acoustic model are complete with so much audio."""
        return int((samples / self._sample_rate - HELD_S) / (self._blocks.size * self._frame_s) + 1e-6)

    def finish(self) -> None:
        """Ends the audio."""
        with self._lock:
            self._finished = True
        self._on_news(self)

    def drop(self) -> None:
        """Ends the alignment: the listener gets no more callbacks."""
        self.dropped = True
        self._on_news(self)

    # --- in the aligner's thread ---

    def take(self) -> tuple[Floats, bool]:
        """Returns the pending audio, mono and at the model's sample rate, and whether it is the last."""
        with self._lock:
            waiting, self._waiting, is_last = self._waiting, [], self._finished
            self._taken = self._arrived
        mixed = [samples.mean(0, dtype=np.float32, keepdims=True) for samples in waiting]
        samples = self._resampler.write(np.concatenate([np.zeros((1, 0), np.float32), *mixed], axis=1))
        if is_last:
            samples = np.concatenate((samples, self._resampler.close()), axis=1)
        self._levels = np.concatenate((self._levels, self._loudness.write(samples[0])))
        return samples[0], is_last

    def advance(self, log_probs: Floats) -> None:
        """Takes frames of the acoustic model, and reports the words that become known with them."""
        self._read_text()
        while len(log_probs) and not self.dropped:  # by blocks, so that the cuts of the audio change nothing
            count = self._blocks.left(self._search.frames) or self._blocks.size
            self._advance(log_probs[:count])
            log_probs = log_probs[count:]

    def _advance(self, log_probs: Floats) -> None:
        count = len(log_probs)
        missing = max(0, count - len(self._levels))  # the last frame may be incomplete
        levels = np.r_[self._levels[:count], np.full(missing, -120.0, np.float32)]
        self._levels = self._levels[count:]
        quiet = self._loudness.quiet(levels)
        found = self._search.feed(log_probs, quiet)
        self.listener.heard((self._search.frames + self._blocks.look_ahead) * self._frame_s)
        self._tell(found)
        if self._ending is not None:
            self._ending.take(log_probs, quiet, levels, found)
            end = self._ending.end(self._search.said_at)
            if end is not None:
                self._tell_bookmarks(is_over=True)
                self.listener.said(end * self._frame_s, self._times.quality(reached_end=True))

    def end(self) -> None:
        """Reports the remaining words, after the last frames."""
        self._read_text()
        reached_end = self._search.said_at is not None
        rest = self._search.finish()
        self._tell(rest)
        self._tell_bookmarks(is_over=True)
        reached_end = reached_end or bool(rest and rest[-1].is_heard)
        self.listener.aligned(self._times.quality(reached_end))

    def _tell(self, found: list[FoundWord]) -> None:
        words = self._times.take(found)
        self._tell_bookmarks(is_over=False)
        if words:
            self.listener.found(tuple(words))

    def _tell_bookmarks(self, is_over: bool) -> None:
        if bookmarks := self._times.bookmarks(is_over):
            self.listener.reached(tuple(bookmarks))

    def _read_text(self) -> None:
        items, is_closed = self._text.take()
        for item in items:
            if isinstance(item, SoughtWord):
                self._search.add([self._symbols[letter] for letter in item.letters])
            self._times.expect(item)
        if is_closed:
            self._search.close()
