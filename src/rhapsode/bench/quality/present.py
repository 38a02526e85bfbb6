"""A report on quality as one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rhapsode.bench.table import Cell, show

WORST = 5


def present(report: Mapping[str, Any]) -> None:
    config, (run,) = report["config"], report["runs"]
    columns = [
        "",
        "samples",
        "errors",
        "WER %",
        "CER %",
        "outliers",
        "RTF p50",
        "first audio ms",
        "similarity",
        "MOS",
        "DNSMOS",
    ]
    row: list[Cell] = [
        config.get("family") or config.get("url"),
        run["samples_scored"],
        sum(run["errors"].values()),
        None if run["wer"] is None else run["wer"] * 100,
        None if run["cer"] is None else run["cer"] * 100,
        len(run["outliers"]),
        *(_at(run, metric, "p50") for metric in ("rtf", "first_audio_ms")),
        *(_at(run, metric, "mean") for metric in ("similarity", "mos", "dnsmos")),
    ]
    lines = [
        f"recogniser {config['recogniser']}; normaliser {config['normaliser']}; seed {report['seed']}; "
        "outlier: WER above 50%"
    ]
    lines += [f"error: {kind} x {count}" for kind, count in run["errors"].items()]
    wrong = [item for item in run["items"] if item["scores"].get("wer")]
    for item in sorted(wrong, key=lambda item: -item["scores"]["wer"])[:WORST]:
        lines.append(f"{item['scores']['wer']:.0%}  '{item['text']}'  heard as  '{item['heard']}'")
    show(f"{config['prompts']}, on {report['machine']['cpu']}", columns, [row], "\n".join([*lines, *report["notes"]]))


def _at(run: Mapping[str, Any], metric: str, which: str) -> Cell:
    found = run["summary"].get(metric)
    return None if found is None else found[which]
