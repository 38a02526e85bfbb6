"""The history of closed loops: when requests were sent, first heard and complete, and how many were in flight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEAST_SPREAD = 0.1
"""Lengths of speech vary if their standard deviation is more than this share of their mean."""
STEADY = 0.1
"""The number of requests is steady while it varies by less than this share."""
FEWEST = 5
"""Fewer measurements are too few to show how they vary."""
NEARLY_NOTHING = 1e-6
"""A lower solution for a level, in seconds of audio per second, means that no request has met this level."""
MARGIN_S = 0.01
"""Where the end of one request lets another begin, the client sees the end up to this much later than the beginning."""


@dataclass(frozen=True)
class LoadPoint:
    """A measurement with `rows` requests at once."""

    rows: float
    pace: float
    """Seconds until every request has one more second of audio."""
    first_s: Sequence[float]
    head_s: float = 0.0
    """Seconds of audio that come with the first audio. A busy server makes its first chunks longer."""


class LoopHistory:
    """The requests of one closed loop. Times are in seconds from its start."""

    def __init__(self, run: Mapping[str, Any]) -> None:
        samples = {name: np.array(values) / 1e3 for name, values in run["samples"].items()}
        self.level = float(run["level"])
        self.sent_s, self.first_s = samples["sent_ms"], samples["first_playable_ms"]
        self.total_s = samples["total_ms"]
        self.ends_s = self.sent_s + self.total_s
        self.audio_s = self.total_s / (samples["rtf"] * 1e3)
        self.head_s = samples["first_chunk_ms"]
        self.waits_s = np.zeros(len(self.sent_s))
        """How long each request waited for the current frame to end."""

    def __len__(self) -> int:
        return len(self.sent_s)

    def at_send(self) -> Floats:
        """Returns how many requests were in flight when each one was sent, itself included."""
        moments_s, numbers = self._numbers(self.sent_s)
        return numbers[np.searchsorted(moments_s, self.sent_s, side="right") - 1]

    def is_alone(self) -> NDArray[np.bool_]:
        """Returns for each request whether it was the only one in flight all the time."""
        moments_s, numbers = self._numbers(self.sent_s)
        start = np.searchsorted(moments_s, self.sent_s, side="right") - 1
        stop = np.searchsorted(moments_s, self.ends_s)
        return np.array([(numbers[a:b] <= 1).all() for a, b in zip(start, stop, strict=True)], np.bool_)

    def is_steady(self) -> NDArray[np.bool_]:
        """Returns for each request whether the number in flight was steady from when it was sent to its first audio."""
        moments_s, numbers = self._numbers(self.sent_s)
        start = np.searchsorted(moments_s, self.sent_s, side="right") - 1
        stop = np.searchsorted(moments_s, self.sent_s + self.first_s + MARGIN_S)
        spans = [numbers[a:b] for a, b in zip(start, stop, strict=True)]
        return np.array([np.ptp(span) < STEADY * span[0] for span in spans], np.bool_)

    def time_by_number(self, weights: Sequence[Floats]) -> Floats:
        """Returns for each request the integral over its time of each weight, by the number of requests in flight.

        `weights` are indexed by that number. The result is [requests, weights].
        """
        starts_s = self.sent_s + self.waits_s
        moments_s, numbers = self._numbers(starts_s)
        counts = numbers[:-1].astype(np.int64)
        columns = []
        for weight in weights:
            sums = np.concatenate([[0.0], np.cumsum(np.diff(moments_s) * weight[counts])])
            columns.append(np.interp(self.ends_s, moments_s, sums) - np.interp(starts_s, moments_s, sums))
        return np.stack(columns, axis=1)

    def _numbers(self, starts_s: Floats) -> tuple[Floats, Floats]:
        """Returns the moments at which the number in flight changes, and the number from each moment on."""
        moments_s = np.concatenate([self.ends_s, starts_s])
        order = np.argsort(moments_s, kind="stable")  # a client ends one request before it sends the next
        changes = np.repeat([-1.0, 1.0], len(self))[order]
        return moments_s[order], np.clip(np.cumsum(changes), 0, self.level)


@dataclass(frozen=True)
class HistorySummary:
    """The measurements of a replica that closed loops give."""

    points: list[LoadPoint]
    tail_s: float
    """Overhead of a request, in seconds of audio: work beyond its own audio and beyond the time to its first frame."""


def summarize_loops(loops: Sequence[LoopHistory], frame_s: float) -> HistorySummary:
    """Measures the pace at each number of requests in flight, and the first audio while this number was steady.

    `frame_s`: the audio of a frame; 0 if it is not known.
    """
    levels = np.array(sorted({loop.level for loop in loops}))
    lead_s, tail_s = _alone(loops)
    paces = _paces(loops, levels, tail_s)
    for loop in loops:  # the first paces tell how long requests waited for a frame; then the paces are measured again
        others = loop.at_send() - 1
        loop.waits_s = lead_s + np.where(others > 0, frame_s / 2 * np.interp(others, levels, paces), 0.0)
    return HistorySummary(_points(loops, levels, _paces(loops, levels, tail_s)), tail_s)


def _alone(loops: Sequence[LoopHistory]) -> tuple[float, float]:
    """Returns the seconds before the first frame of a request that is alone, and its overhead in seconds of audio.

    The total time is a line over the length of the audio, and its slope is the pace. Its value at length 0 is the sum
    of both results. Both are 0 if lengths do not vary, since then no line can be fitted.
    """
    alone = [(loop.is_alone(), loop) for loop in loops]
    audio_s, total_s, first_s, head_s = (
        np.concatenate([getattr(loop, name)[chosen] for chosen, loop in alone])
        for name in ("audio_s", "total_s", "first_s", "head_s")
    )
    if len(audio_s) < FEWEST or float(audio_s.std()) < LEAST_SPREAD * float(audio_s.mean()):
        return 0.0, 0.0
    pace, left_s = np.polyfit(audio_s, total_s, 1).tolist()
    if pace <= 0:
        return 0.0, 0.0
    lead_s = max(float(np.median(first_s - head_s * pace)), 0.0)
    return lead_s, max((left_s - lead_s) / pace, 0.0)


def _paces(loops: Sequence[LoopHistory], levels: Floats, tail_s: float) -> Floats:
    """Returns the pace at each level, by least squares: the audio made for a request is its own audio and the tail.

    The unknowns are the audio per second of all requests together at each level; they are interpolated between levels.
    """
    numbers = np.arange(int(levels[-1]) + 1)
    weights = [np.interp(numbers, levels, row) / np.maximum(numbers, 1) for row in np.eye(len(levels))]
    given_s = np.concatenate([loop.time_by_number(weights) for loop in loops])
    audio_s = np.concatenate([loop.audio_s for loop in loops])
    found = np.linalg.lstsq(given_s, audio_s + tail_s, rcond=None)[0]
    seen = found > NEARLY_NOTHING
    paces: Floats = np.interp(levels, levels[seen], levels[seen] / found[seen])
    return paces


def _points(loops: Sequence[LoopHistory], levels: Floats, paces: Floats) -> list[LoadPoint]:
    """Returns a point for each level, from the requests of all loops: with pauses, a loop has fewer than its level."""
    numbers = np.concatenate([loop.at_send() for loop in loops])
    steady = np.concatenate([loop.is_steady() for loop in loops])
    first_s = np.concatenate([loop.first_s for loop in loops])
    head_s = np.concatenate([loop.head_s for loop in loops])
    nearest = np.argmin(abs(np.log(numbers[:, None] / levels)), axis=1)
    points = []
    for i in range(len(levels)):
        chosen = (nearest == i) & steady
        if chosen.sum() < FEWEST:
            chosen = nearest == i
        if chosen.any():
            rows = float(numbers[chosen].mean())
            pace = float(np.interp(rows, levels, paces))
            points.append(LoadPoint(rows, pace, first_s[chosen].tolist(), float(np.median(head_s[chosen]))))
    return points
