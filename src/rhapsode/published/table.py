"""Rows as tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rhapsode.bench.table import Cell, number

Row = Mapping[str, Any]
QUALITY = (
    *(
        "checkpoint",
        "mode",
        "precision",
        "prompts",
        "samples",
        "errors",
        "WER % (others)",
        "CER % (others)",
        "WER % (ours)",
    ),
    *("similarity", "MOS", "length", "silence %", "clipped", "runaways"),
)
SPEED = (
    *("checkpoint", "precision", "listeners", "first audio p50 / p99 ms", "RTF", "underruns", "audio-s/s"),
    *("weights GB", "peak GB", "load before"),
)
BESIDE = (
    *("checkpoint", "upstream", "text", "equal frames", "seconds, ours / theirs", "log-mel dB", "SNR dB"),
    *("WER %, ours / theirs", "RTF, ours / theirs", "differs"),
)


def markdown(rows: Sequence[Row]) -> str:
    """Returns all tables of these rows, and what they were measured with."""
    parts = ["### Quality", table(QUALITY, [cells for row in rows for cells in quality_cells(row)])]
    parts += ["### Speed", table(SPEED, [cells for row in rows for cells in speed_cells(row)])]
    if any(row["beside"] for row in rows):
        parts += ["### Beside upstream", table(BESIDE, [cells for row in rows for cells in beside_cells(row)])]
    parts += ["### Measured with", "\n".join(f"- {line}" for row in rows for line in [provenance(row)])]
    return "\n\n".join(parts) + "\n"


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    lines = [columns, ["---"] * len(columns), *([number(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def quality_cells(row: Row) -> Iterator[list[Cell]]:
    for one in row["quality"]:
        others = one["comparable"]
        by_word = others["metric"] == "wer"
        rate = percent(others["rate"])
        yield [
            row["checkpoint"]["name"],
            one["mode"],
            one["precision"],
            one["split"],
            one["samples"],
            sum(one["errors"].values()),
            rate if by_word else None,
            None if by_word else rate,
            percent(one["wer"]),
            one["similarity"],
            one["mos"],
            one["length"],
            percent(one["silence"]),
            one["clipped"],
            one["runaways"],
        ]


def speed_cells(row: Row) -> Iterator[list[Cell]]:
    for one in row["speed"]:
        memory = one["memory_bytes"]
        yield [
            row["checkpoint"]["name"],
            one["precision"],
            one["listeners"],
            f"{number(one['first_audio_p50_ms'])} / {number(one['first_audio_p99_ms'])}",
            one["rtf"],
            one["underruns"],
            one["audio_s_per_s"],
            memory["weights"] / 1e9,
            memory["peak"] / 1e9,
            one["load_before"],
        ]


def beside_cells(row: Row) -> Iterator[list[Cell]]:
    beside = row["beside"]
    for one in beside["samples"] if beside else ():
        equal = None if one["frames"] is None else f"{one['equal_frames']} of {one['frames']}"
        yield [
            row["checkpoint"]["name"],
            beside["upstream"],
            one["id"],
            equal,
            f"{number(one['ours_s'])} / {number(one['theirs_s'])}",
            one["mel_db"],
            one["snr_db"],
            f"{number(percent(one['ours_wer']))} / {number(percent(one['theirs_wer']))}",
            f"{number(beside['ours_rtf'])} / {number(beside['theirs_rtf'])}",
            "; ".join(one["findings"]) or "no",
        ]


def provenance(row: Row) -> str:
    """Returns where a row comes from: weights, code, machine, recogniser, normalisers and date."""
    checkpoint, machine, code = row["checkpoint"], row["machine"], row["code"]
    device = machine["gpus"][0] if machine["device"].startswith("cuda") and machine["gpus"] else machine["cpu"]
    rules = dict.fromkeys(one["comparable"]["normaliser"] for one in row["quality"])
    own = dict.fromkeys(one["normaliser"] for one in row["quality"])
    parts = [
        f"`{checkpoint['name']}` ({checkpoint['family']}) at `{checkpoint['revision']}`",
        f"Rhapsode {code['version']} at `{(code['revision'] or '?')[:12]}`",
        f"{device}, {machine['cores']} cores, driver {machine['driver'] or 'none'}",
        f"torch {row['versions']['torch']}, Python {row['versions']['python']}",
        f"prompts {row['prompts']}, seed {row['seed']}, recogniser {row['recogniser']}",
        f"others' rates by {', '.join(rules)}, ours by {', '.join(own)}",
        f"judges {', '.join(row['judges']) or 'none'}; {row['verify']['verdict']}; {row['created'][:10]}",
    ]
    left = f"; {row['left_out']} steps did not fit into the budget" if row["left_out"] else ""
    return "; ".join(parts) + left


def percent(value: float | None) -> float | None:
    return None if value is None else value * 100
