"""What one replica can do, by how many requests it speaks at once, as a report of `rhapsode bench` measured it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhapsode.engine.admission import HEADROOM
from rhapsode.errors import InvalidRequest

QUANTILES = np.linspace(0.0, 1.0, 101)
FEWEST = 5
"""Fewer first audios tell nothing about how they vary."""
LEAST_SPREAD = 0.1
"""Lengths vary if their standard deviation is more than this share of their mean."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LoadPoint:
    """What was measured with so many requests at once."""

    rows: float
    pace: float
    """Seconds until everybody has one more second of audio."""
    first_s: Sequence[float]
    head_s: float = 0.0
    """Seconds of audio that come with the first audio. A busy server makes its first chunks longer."""


@dataclass(frozen=True)
class ReplicaCurve:
    """Pace and first audio by requests at once.

    Values between measured loads are interpolated; past the highest one they grow in proportion to the load, as the
    server's own admission assumes.
    """

    pace: Floats  # [slots + 1]
    first_s: Floats  # [slots + 1, quantiles]
    head_s: Floats  # [slots + 1]
    places: int
    """How many requests are let in at once."""

    @cached_property
    def paces(self) -> list[float]:
        """The pace as a plain list, which a simulation reads millions of times."""
        found: list[float] = self.pace.tolist()
        return found

    @cached_property
    def heads(self) -> list[float]:
        """The audio of the first audio, likewise."""
        found: list[float] = self.head_s.tolist()
        return found

    def audio_s_per_s(self, mean_audio_s: float) -> float:
        """Returns the seconds of audio per second with all places taken, for requests of this length."""
        first_s = float(self.first_s[self.places].mean())
        rest_s = max(mean_audio_s - float(self.head_s[self.places]), 0.0)
        return self.places * mean_audio_s / (first_s + rest_s * float(self.pace[self.places]))


def read_curve(report: Mapping[str, Any], slots: int | None = None, *, real_time: bool = True) -> ReplicaCurve:
    """Returns the curve of a report of `bench engine` or `bench serve`.

    With `real_time` a request is let in only while the pace leaves everybody faster than real time, as on a server.
    """
    points = {"engine": _engine_points, "serve": _serve_points}.get(report["kind"], lambda _: [])(report)
    if not points:
        raise InvalidRequest("the curve must be a report of `bench engine`, or of `bench serve --closed 1,2,4,8,...`.")
    return fit(points, slots or ceil(points[-1].rows), _first_by_number(report), real_time=real_time)


def fit(
    points: Sequence[LoadPoint],
    slots: int,
    first_by_number: Mapping[float, Sequence[float]] | None = None,
    *,
    real_time: bool = True,
) -> ReplicaCurve:
    """Returns a curve through these points, which are in the order of their load, and these first audios, if any."""
    rows = np.array([point.rows for point in points])
    every = np.arange(slots + 1)
    past = np.maximum(every / rows[-1], 1.0)
    firsts = first_by_number or {point.rows: point.first_s for point in points}
    pace = np.maximum.accumulate(np.interp(every, rows, [point.pace for point in points]) * past)
    measured = np.array([np.quantile(first_s, QUANTILES) for first_s in firsts.values()])
    first_s = np.stack([np.interp(every, list(firsts), column) for column in measured.T], axis=1)
    first_s *= np.maximum(every / max(firsts), 1.0)[:, None]
    head_s = np.interp(every, rows, [point.head_s for point in points])
    keeps_up = int(np.searchsorted(pace[1:], HEADROOM, side="right")) if real_time else slots
    return ReplicaCurve(pace, first_s, head_s, max(1, min(keeps_up, slots)))


def _engine_points(report: Mapping[str, Any]) -> list[LoadPoint]:
    runs = report["runs"]
    mode = "graphs" if any(run["mode"] == "graphs" for run in runs) else "eager"
    points = []
    for run in sorted((run for run in runs if run["mode"] == mode), key=lambda run: run["batch"]):
        frames = run["summary"].get("frame_ms")
        pace = frames["p50"] * report["config"]["frame_hz"] / 1e3 if frames else run["summary"]["rtf"]["p50"]
        points.append(LoadPoint(run["batch"], pace, [ms / 1e3 for ms in run["samples"]["first_audio_ms"]]))
    return points


def _serve_points(report: Mapping[str, Any]) -> list[LoadPoint]:
    """Closed loops alone: only they say how many requests were spoken at once."""
    return [_serve_point(run) for run in _closed_runs(report)]


def _closed_runs(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    runs = [run for run in report["runs"] if run["load"] == "closed" and run["completed"]]
    return sorted(runs, key=lambda run: run["level"])


def _first_by_number(report: Mapping[str, Any]) -> dict[float, list[float]]:
    """Returns first audio by how many requests there were when one was sent.

    Clients who pause meet all numbers up to their level, so all levels count together. Without pauses a level is
    the number itself.
    """
    found: dict[float, list[float]] = {}
    for run in _closed_runs(report) if report["kind"] == "serve" else ():
        if run.get("pause_s"):
            samples = run["samples"]
            for number, first_ms in zip(samples["at_once"], samples["first_playable_ms"], strict=True):
                found.setdefault(number, []).append(first_ms / 1e3)
    return {number: first_s for number, first_s in sorted(found.items()) if len(first_s) >= FEWEST}


def _serve_point(run: Mapping[str, Any]) -> LoadPoint:
    """With pauses, a request meets each of the other clients only for the share of time in which that one is served."""
    total_s = np.array(run["samples"]["total_ms"]) / 1e3
    first_s = np.array(run["samples"]["first_playable_ms"]) / 1e3
    audio_s = total_s / np.array(run["samples"]["rtf"])
    served = float(total_s.sum()) / run["wall_s"] / run["level"] if run.get("pause_s") else 1.0
    pace, head_s = _pace(audio_s, total_s - first_s)
    return LoadPoint(1 + (run["level"] - 1) * served, pace, first_s.tolist(), head_s)


def _pace(audio_s: Floats, spoken_s: Floats) -> tuple[float, float]:
    """Returns the pace, and the audio that comes with the first audio, from the time after first audio by length.

    Longer requests tell what a second of audio takes; what all of them lack is what was there at the beginning. With
    requests of one length that cannot be told, and nothing is taken to be there.
    """
    ratio = float(spoken_s.sum() / audio_s.sum())
    varies = float(audio_s.std()) > LEAST_SPREAD * float(audio_s.mean())
    slope = float(((audio_s - audio_s.mean()) * spoken_s).mean() / audio_s.var()) if varies else 0.0
    if slope <= ratio:
        return ratio, 0.0
    return slope, min(float(audio_s.mean() - spoken_s.mean() / slope), float(audio_s.min()))
