"""Joins sentences that were spoken separately, without clicks and with even pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rhapsode.audio.samples import shaped, silence

if TYPE_CHECKING:
    from rhapsode.types import Samples

PAUSE_S = 0.25
SILENCE_DBFS = -50.0
"""A window whose loudest channel has an RMS below this is silence."""

WINDOW_S = 0.010
HEAD_S = 0.030  # kept before speech: soft onsets are below the threshold
TAIL_S = 0.080  # kept after speech: soft endings are below it, too
FADE_S = 0.005


class Joiner:
    """Trims the silence around each piece, fades its edges and puts `pause_s` of silence between pieces.

    A piece may arrive in several writes. Speech is returned at once; silence is held until speech follows it.
    A piece without speech is dropped.
    """

    def __init__(self, sample_rate: int, channels: int = 1, *, pause_s: float = PAUSE_S) -> None:
        self._channels = channels
        self._window = max(1, round(WINDOW_S * sample_rate))
        self._pause = round(pause_s * sample_rate)
        # What is kept around two pieces is part of the pause between them, so it must fit into it.
        self._head = min(round(HEAD_S * sample_rate), self._pause // 3)
        self._tail = min(round(TAIL_S * sample_rate), self._pause - self._head)
        self._fade_in = _raised_cosine(round(FADE_S * sample_rate))
        self._last_tail: int | None = None  # silence at the end of the previous piece; None before the first
        self._held = silence(channels)  # samples that were not returned yet
        self._scanned = 0  # how many of them were classified as speech or silence
        self._speech_end = 0
        self._speaking = False

    def write(self, samples: Samples) -> Samples:
        """Adds samples to the current piece and returns what can be played."""
        self._held = np.concatenate((self._held, shaped(samples, self._channels)), axis=1)
        lead = self._scan(self._window)
        if not self._speaking:
            self._drop(max(0, self._scanned - self._head))
            return lead
        sure = min(self._speech_end + self._tail, self._scanned) - self._fade_in.size
        return np.concatenate((lead, self._release(max(0, sure))), axis=1)

    def end_piece(self) -> Samples:
        """Ends the current piece and returns the rest of it."""
        rest = self._held.shape[1] - self._scanned
        lead = self._scan(rest) if rest else silence(self._channels)
        if not self._speaking:
            self._start_piece()
            return lead
        end = min(self._speech_end + self._tail, self._held.shape[1])
        self._last_tail = end - self._speech_end
        fade = min(self._fade_in.size, end)
        self._held[:, end - fade : end] *= self._fade_in[:fade][::-1]
        last = np.concatenate((lead, self._held[:, :end]), axis=1)
        self._start_piece()
        return last

    def add(self, piece: Samples) -> Samples:
        """Joins a whole piece at once."""
        return np.concatenate((self.write(piece), self.end_piece()), axis=1)

    def close(self) -> Samples:
        return self.end_piece()

    def _start_piece(self) -> None:
        self._held = silence(self._channels)
        self._scanned = self._speech_end = 0
        self._speaking = False

    def _scan(self, window: int) -> Samples:
        """Looks for speech in whole windows. Returns the pause before the piece, if its speech starts here."""
        count = (self._held.shape[1] - self._scanned) // window
        stop = self._scanned + count * window
        windows = self._held[:, self._scanned : stop].reshape(self._channels, count, window)
        power = np.mean(np.square(windows, dtype=np.float64), axis=2).max(axis=0)  # [count]
        loud = np.flatnonzero(~(power < 10 ** (SILENCE_DBFS / 10)))  # NaN counts as speech, so that it is reported
        start, self._scanned = self._scanned, stop
        if not loud.size:
            return silence(self._channels)
        self._speech_end = start + (int(loud[-1]) + 1) * window
        if self._speaking:
            return silence(self._channels)
        return self._begin(start + int(loud[0]) * window)

    def _begin(self, speech_start: int) -> Samples:
        """Starts the piece at its speech: trims the silence before it, fades in, returns the pause before it."""
        self._speaking = True
        head = min(self._head, speech_start)
        self._drop(speech_start - head)
        fade = min(self._fade_in.size, self._held.shape[1])
        self._held[:, :fade] *= self._fade_in[:fade]
        gap = 0 if self._last_tail is None else self._pause - self._last_tail - head
        return silence(self._channels, gap)

    def _release(self, count: int) -> Samples:
        released = self._held[:, :count]
        self._drop(count)
        return released

    def _drop(self, count: int) -> None:
        self._held = self._held[:, count:]
        self._scanned -= count
        self._speech_end -= count


def _raised_cosine(length: int) -> Samples:
    """Returns a fade-in curve, from just above 0 to just below 1."""
    ramp = 0.5 - 0.5 * np.cos(np.pi * (np.arange(length) + 0.5) / max(1, length))
    return ramp.astype(np.float32)
