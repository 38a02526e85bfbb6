"""Prints a report on a server as one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rhapsode.bench.table import Cell, show

COLUMNS = (
    "",
    "requests",
    "errors",
    "first byte p50",
    "playable p50",
    "p95",
    "p99 ms",
    "audible p50",
    "end p50 ms",
    "RTF p50",
    "gap p99 ms",
    "underruns",
    "audio-s/s",
)


def present(report: Mapping[str, Any]) -> None:
    machine, config = report["machine"], report["config"]
    title = f"{config['url']} ({config['target']}); client: {machine['cpu']}, {machine['cores']} cores"
    lines = [
        "times in ms since a request was due; playable: the first sample arrives; audible: the first above -40 dB "
        "is played; underruns: chunks that arrived after everything before them had been played"
    ]
    lines += [f"{run['label']}: {_errors(run)}" for run in report["runs"] if run["errors"]]
    show(title, COLUMNS, [_row(run) for run in report["runs"]], "\n".join([*lines, *report["notes"]]))


def _row(run: Mapping[str, Any]) -> list[Cell]:
    def at(metric: str, which: str) -> Cell:
        found = run["summary"].get(metric)
        return None if found is None else found[which]

    return [
        run["label"],
        run["requests"],
        sum(run["errors"].values()),
        at("first_byte_ms", "p50"),
        at("first_playable_ms", "p50"),
        at("first_playable_ms", "p95"),
        at("first_playable_ms", "p99"),
        at("first_audible_ms", "p50"),
        at("total_ms", "p50"),
        at("rtf", "p50"),
        run["gap_ms"]["p99"] if run["gap_ms"] else None,
        run["underruns"],
        run["audio_s_per_s"],
    ]


def _errors(run: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{count} x {kind}" for kind, count in run["errors"].items())
    first = next(iter(run["error_examples"].values()))[0]
    return f"{counts} ({first})"
