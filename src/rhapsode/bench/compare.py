"""Compares two reports: ratios of their metrics, with confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rhapsode.bench.stats import Ratio, ratio, summarize
from rhapsode.bench.table import Cell, show
from rhapsode.errors import InvalidRequest

METRICS = {
    "engine": ("frame_ms", "first_audio_ms", "audio_s_per_s", "rtf"),
    "serve": ("first_byte_ms", "first_playable_ms", "first_audible_ms", "total_ms", "rtf", "longest_gap_ms"),
    "quality": ("wer", "cer", "comparable", "rtf", "similarity", "mos", "dnsmos"),
}
AVERAGED = ("wer", "cer", "comparable", "similarity", "mos", "dnsmos")
"""Metrics that are compared by mean: most sentences have no error at all, so a median says little."""


def ratios(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, dict[str, Ratio | None]]:
    """Returns the ratios of the second report to the first, by label and metric, for those that both have."""
    if first["kind"] != second["kind"]:
        raise InvalidRequest(f"a report on {first['kind']} cannot be compared with one on {second['kind']}.")
    others = {run["label"]: run for run in second["runs"]}
    found: dict[str, dict[str, Ratio | None]] = {}
    for run in first["runs"]:
        other = others.get(run["label"])
        if other is None:
            continue
        found[run["label"]] = {
            metric: ratio(run["samples"][metric], other["samples"][metric], mean=metric in AVERAGED)
            for metric in METRICS[first["kind"]]
            if metric in run["samples"] and metric in other["samples"]
        }
    if not found:
        raise InvalidRequest("the two reports measured nothing in common: their runs have different labels.")
    return found


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Returns what else differs between the two reports: machine, versions, configuration, seed."""
    lines = []
    for section in ("machine", "versions", "config"):
        one, other = _flat(first[section]), _flat(second[section])
        changed = [
            f"{name} {one.get(name)} -> {other.get(name)}" for name in one | other if one.get(name) != other.get(name)
        ]
        if changed:
            lines.append(f"{section} differs: {'; '.join(changed[:6])}{' ...' if len(changed) > 6 else ''}")
    if first["seed"] != second["seed"]:
        lines.append(f"seed differs: {first['seed']} -> {second['seed']}")
    return lines


def present(first: Mapping[str, Any], second: Mapping[str, Any], names: tuple[Path, Path]) -> None:
    rows: list[list[Cell]] = []
    runs = [{run["label"]: run for run in report["runs"]} for report in (first, second)]
    for label, metrics in ratios(first, second).items():
        for metric, found in metrics.items():
            which = "mean" if metric in AVERAGED else "p50"
            values = [summarize(by_label[label]["samples"][metric]).as_dict()[which] for by_label in runs]
            rows.append([label, metric, *values, *_cells(found)])
    caption = "\n".join(
        [
            "ratio: B over A of medians (means for quality); spread: 95% bootstrap interval; *: it does not include 1",
            *differences(first, second),
        ]
    )
    columns = ("", "metric", "A", "B", "B / A", "spread", "")
    show(f"A = {names[0]}, B = {names[1]}", columns, rows, caption)


def _cells(found: Ratio | None) -> list[Cell]:
    if found is None:
        return [None, None, ""]
    return [f"{found.value:.3f}", f"{found.low:.3f} - {found.high:.3f}", "*" if found.certain else ""]


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(value, Mapping):
        return {k: v for name, part in value.items() for k, v in _flat(part, f"{prefix}{name}.").items()}
    return {prefix.rstrip("."): str(value)}
