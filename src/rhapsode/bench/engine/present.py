"""Prints a report on the engine as one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rhapsode.bench.engine.section_times import SECTIONS
from rhapsode.bench.table import Cell, show


def present(report: Mapping[str, Any]) -> None:
    config, runs = report["config"], report["runs"]
    sections = [name for name in (*SECTIONS, "host") if any(name in run["breakdown_ms"] for run in runs)]
    columns = [
        "",
        "frame ms",
        "first audio",
        "p99 ms",
        "audio-s/s",
        "RTF",
        "underruns",
        "CPU us",
        *sections,
        "floor",
        "x floor",
    ]
    rows = [_row(run, sections) for run in runs]
    per = "frame" if any(run["frames"] for run in runs) else "batch"
    show(f"{config['subject']} ({config['weights']} weights), {_where(report)}", columns, rows, _caption(report, per))


def _row(run: Mapping[str, Any], sections: list[str]) -> list[Cell]:
    def middle(metric: str, which: str = "p50") -> Cell:
        found = run["summary"].get(metric)
        return None if found is None else found[which]

    return [
        run["label"],
        middle("frame_ms"),
        middle("first_audio_ms"),
        middle("first_audio_ms", "p99"),
        middle("audio_s_per_s"),
        middle("rtf"),
        run["underruns"],
        middle("cpu_us_per_chunk"),
        *(run["breakdown_ms"].get(name) for name in sections),
        run["floor_ms"],
        run["times_floor"],
    ]


def _where(report: Mapping[str, Any]) -> str:
    machine, config = report["machine"], report["config"]
    device = machine["gpus"][0] if config["device"].startswith("cuda") and machine["gpus"] else machine["cpu"]
    words = [device, config["dtype"]]
    if config["deployment"].get("weights", "auto") != "auto":  # older reports do not have it
        words.append(f"weights {config['deployment']['weights']}")
    if config["device"] == "cpu":
        words.append(f"{config['threads']} threads")
    return ", ".join(words)


def _caption(report: Mapping[str, Any], per: str) -> str:
    config, run = report["config"], report["runs"][0]
    read = sum(run["weight_bytes_per_frame"].values())
    deployment = config["deployment"]
    chunks = deployment["chunks"]
    lines = [
        f"CPU us per delivered chunk; sections in ms per {per} of the whole batch; medians of {run['rounds']} rounds; "
        f"{run['frames'] or 'all'} frames each; slots of {deployment['limits']['max_positions']} positions; "
        f"chunks {chunks['first']} x {chunks['growth']} up to {chunks['largest']} frames",
        f"weights read per frame {read / 1e9:.3f} GB at {config['bandwidth_bytes_per_s'] / 1e9:.0f} GB/s "
        f"({'measured copy' if config['bandwidth_measured'] else 'given'}); memory: "
        f"weights {run['memory']['weights_bytes'] / 1e9:.2f} GB, KV {run['memory']['kv_bytes'] / 1e9:.2f} GB, "
        f"peak {run['memory']['peak_bytes'] / 1e9:.2f} GB",
        *report["notes"],
    ]
    return "\n".join(lines)
