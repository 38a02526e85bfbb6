"""Prints a capacity report as one table and one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rhapsode.bench.table import Cell, show

COLUMNS = (
    "",
    "first audio p50",
    "p95",
    "p99 ms",
    "queued %",
    "refused %",
    "with a gap %",
    "places in use %",
    "replica hours",
    "good enough",
)


def present(report: Mapping[str, Any]) -> None:
    config = report["config"]
    title = (
        f"{config['requests']:,} requests in {config['duration_s'] / 60:,.1f} min: "
        f"{config['listeners']:,.0f} listeners at once, {config['mean_audio_s']:.1f} s of speech each"
    )
    lines = [
        f"one replica ({config['subject']}): {config['places']} requests at once, "
        f"{config['replica_audio_s_per_s']:,.1f} s of audio per second",
        *report["notes"],
    ]
    if goal := config["goal"]:
        wanted = f"p99 first audio {goal['first_audio_s'] * 1e3:,.0f} ms"
        found = config["fewest_replicas"]
        lines.append(f"{found} replicas give {wanted}" if found else f"none of these gives {wanted}")
    show(title, COLUMNS, [_row(run) for run in report["runs"]], "\n".join(lines))


def _row(run: Mapping[str, Any]) -> list[Cell]:
    first = run["summary"].get("first_audio_ms", {})
    requests = run["requests"]
    served = max(1, requests - run["refused"])
    good = run["meets_goal"]
    return [
        run["label"],
        first.get("p50"),
        first.get("p95"),
        first.get("p99"),
        100 * run["queued"] / served,
        100 * run["refused"] / requests,
        100 * run["with_gap"] / served,
        100 * run["busy"],
        run["replica_hours"],
        None if good is None else "yes" if good else "no",
    ]
