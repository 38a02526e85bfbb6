"""Prints a report on quality as one table: a row for each mode, and below it one for each kind of prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rhapsode.bench.table import Cell, show

COLUMNS = (
    *("", "samples", "errors", "WER %", "CER %", "{others} %", "similarity", "MOS", "DNSMOS", "outliers"),
    *("RTF p50", "first ms"),
)


def present(report: Mapping[str, Any]) -> None:
    config = report["config"]
    rule = config["comparable"]
    others = f"others' {rule['metric'].upper()}"
    rows: list[list[Cell]] = []
    lines = [
        f"recogniser {config['recogniser']}; normaliser {config['normaliser']}; {others}: by {rule['normaliser']}; "
        f"seed {report['seed']}; outlier: WER above 50%"
    ]
    for run in report["runs"]:
        speed = [_median(run, metric) for metric in ("rtf", "first_audio_ms")]
        rows.append([run["label"], *_cells(run), len(run["outliers"]), *speed])
        rows += [[f"  {kind}", *_cells(figures), "", "", ""] for kind, figures in run["kinds"].items()]
        lines += [f"{run['label']}: error: {kind} x {count}" for kind, count in run["errors"].items()]
    for run in report["runs"]:
        items = {item["id"]: item for item in run["items"]}
        lines += [_transcript(run["label"], items[name]) for name in run["worst"]]
    who = config.get("family") or config.get("url")
    title = f"{who}: {config['prompts']}, on {report['machine']['cpu']}"
    show(title, [column.format(others=others) for column in COLUMNS], rows, "\n".join([*lines, *report["notes"]]))


def _cells(figures: Mapping[str, Any]) -> list[Cell]:
    return [
        figures["samples_scored"],
        sum(figures["errors"].values()),
        *(None if figures[rate] is None else figures[rate] * 100 for rate in ("wer", "cer", "comparable")),
        *(figures["means"].get(metric) for metric in ("similarity", "mos", "dnsmos")),
    ]


def _median(run: Mapping[str, Any], metric: str) -> Cell:
    found = run["summary"].get(metric)
    return None if found is None else found["p50"]


def _transcript(label: str, item: Mapping[str, Any]) -> str:
    return f"{label}: {item['scores']['wer']:.0%}  '{item['text']}'  heard as  '{item['heard']}'"
