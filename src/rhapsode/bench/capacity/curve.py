"""The speed of one replica by the number of requests that it speaks at once, from a report of `rhapsode bench`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhapsode.bench.capacity.history import LoadPoint, LoopHistory, summarize_loops
from rhapsode.engine.admission import CPU_HEADROOM, HEADROOM
from rhapsode.errors import InvalidRequest

QUANTILES = np.linspace(0.0, 1.0, 101)
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ReplicaCurve:
    """How fast one server speaks, and when it is first heard, for every number of requests that it serves at once.

    Values between measured loads are interpolated; past the highest one they grow in proportion to the load, as the
    server's own admission assumes.
    """

    pace: Floats  # [slots + 1]: seconds until each request has one more second of audio
    first_s: Floats  # [slots + 1, quantiles]: seconds until first audio
    head_s: Floats  # [slots + 1]: seconds of audio that the first audio has
    places: int
    """How many requests are admitted at once."""
    frame_s: float = 0.0
    """Seconds of audio in a frame: requests join, begin to be heard and end at the end of a frame. 0: at any moment."""
    tail_s: float = 0.0
    """Overhead of a request, in seconds of audio: work beyond its own audio and beyond the time to its first frame."""

    @cached_property
    def paces(self) -> list[float]:
        """The pace as a plain list, which a simulation reads millions of times."""
        found: list[float] = self.pace.tolist()
        return found

    @cached_property
    def heads(self) -> list[float]:
        """`head_s` as a plain list, for the same reason."""
        found: list[float] = self.head_s.tolist()
        return found

    @cached_property
    def leads(self) -> list[list[float]]:
        """Seconds to first audio, less those for its frames and for the wait to join. [slots + 1][quantiles]"""
        others = np.concatenate([[0.0, 0.0], self.pace[1:-1]])
        lead_s = self.first_s - (self.head_s * self.pace)[:, None] - self.frame_s * others[:, None] * QUANTILES
        found: list[list[float]] = np.maximum(lead_s, 0.0).tolist()
        return found

    def audio_s_per_s(self, mean_audio_s: float) -> float:
        """Returns the seconds of audio per second with all places taken, for requests of this length."""
        first_s = float(self.first_s[self.places].mean())
        rest_s = max(mean_audio_s + self.tail_s - float(self.head_s[self.places]), 0.0)
        return self.places * mean_audio_s / (first_s + rest_s * float(self.pace[self.places]))


def read_curve(report: Mapping[str, Any], slots: int | None = None, *, real_time: bool = True) -> ReplicaCurve:
    """Returns the curve of a report of `bench engine` or `bench serve`.

    With `real_time` a request is admitted only while all requests stay faster than real time, as on a server.
    """
    points, frame_s, tail_s = {"engine": _engine, "serve": _serve}.get(report["kind"], _nothing)(report)
    if not points:
        raise InvalidRequest("the curve must be a report of `bench engine`, or of `bench serve --closed 1,2,4,8,...`.")
    headroom = HEADROOM if report.get("machine", {}).get("gpus") else CPU_HEADROOM
    most_rows = slots or ceil(points[-1].rows)
    return fit(points, most_rows, frame_s, tail_s, headroom=headroom if real_time else None)


def fit(
    points: Sequence[LoadPoint],
    slots: int,
    frame_s: float = 0.0,
    tail_s: float = 0.0,
    *,
    headroom: float | None = HEADROOM,
) -> ReplicaCurve:
    """Returns a curve through these points, which are in the order of their load.

    `headroom`: the largest pace at which requests are admitted; `None` admits as many as there are slots.
    """
    rows = np.array([point.rows for point in points])
    every = np.arange(slots + 1)
    past = np.maximum(every / rows[-1], 1.0)
    pace = np.maximum.accumulate(np.interp(every, rows, [point.pace for point in points]) * past)
    measured = np.array([np.quantile(point.first_s, QUANTILES) for point in points])
    first_s = np.stack([np.interp(every, rows, column) for column in measured.T], axis=1) * past[:, None]
    head_s = np.interp(every, rows, [point.head_s for point in points])
    if frame_s:
        head_s = np.maximum(np.round(head_s / frame_s), 1) * frame_s  # samples are cut at either end
    keeps_up = slots if headroom is None else int(np.searchsorted(pace[1:], headroom, side="right"))
    return ReplicaCurve(pace, first_s, head_s, max(1, min(keeps_up, slots)), frame_s, tail_s)


Measured = tuple[Sequence[LoadPoint], float, float]
"""The points of a curve, its `frame_s` and its `tail_s`."""


def _nothing(report: Mapping[str, Any]) -> Measured:
    return (), 0.0, 0.0


def _engine(report: Mapping[str, Any]) -> Measured:
    """Reads a report of `bench engine`. Its requests start together, so it does not show how requests join others."""
    runs = report["runs"]
    mode = "graphs" if any(run["mode"] == "graphs" for run in runs) else "eager"
    points = []
    for run in sorted((run for run in runs if run["mode"] == mode), key=lambda run: run["batch"]):
        frames = run["summary"].get("frame_ms")
        pace = frames["p50"] * report["config"]["frame_hz"] / 1e3 if frames else run["summary"]["rtf"]["p50"]
        points.append(LoadPoint(run["batch"], pace, [ms / 1e3 for ms in run["samples"]["first_audio_ms"]]))
    return points, 0.0, 0.0


def _serve(report: Mapping[str, Any]) -> Measured:
    """Reads the closed loops of a report of `bench serve`: only they measure a known number of requests."""
    closed = [run for run in report["runs"] if run["load"] == "closed"]
    runs = [run for run in closed if run["samples"].keys() >= {"sent_ms", "first_chunk_ms"}]
    if not runs:
        return _nothing(report)
    frame_s = 1 / report["config"]["frame_hz"] if report["config"].get("frame_hz") else 0.0
    found = summarize_loops([LoopHistory(run) for run in runs], frame_s)
    return found.points, frame_s, found.tail_s
