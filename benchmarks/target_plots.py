"""Plots what `targets.py` found: first audio and throughput by listeners, in closed loops and in bursts.

    python benchmarks/target_plots.py FOLDER/targets.json docs/plots/h200-targets

It runs where matplotlib is, which need not be the machine that was measured. Of several bursts of one size the last
ones are shown: those of a server that has served before.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rhapsode.bench.plots import draw

KINDS = ("closed", "burst")


def report_of(found: dict[str, Any], created: str) -> dict[str, Any]:
    """Returns the loads of all servers as one report of `rhapsode bench serve`."""
    machine = found["machine"]
    runs = {(run["load"], run["level"]): run for run in found["runs"] if run["load"] in KINDS}
    return {
        "kind": "serve",
        "created": created,
        "runs": [runs[key] for key in sorted(runs)],
        "machine": {"gpus": [machine["gpu"]["name"]], "cpu": machine["cpu"], "cores": machine["cores"]},
        "versions": machine["versions"],
        "config": {"subject": "Qwen3-TTS-1.7B shape over HTTP, bf16, 52 frames"},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("found", type=Path, help="targets.json")
    parser.add_argument("beside", type=Path, help="where plots go, and how their names begin")
    given = parser.parse_args()
    created = datetime.fromtimestamp(given.found.stat().st_mtime, UTC).isoformat()
    for path in draw(report_of(json.loads(given.found.read_text("utf-8")), created), given.beside):
        print(path)


if __name__ == "__main__":
    main()
