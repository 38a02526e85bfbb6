"""The report of a soak: a short table for people, JSON for machines."""

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.soak.run import Result


def as_json(results: Sequence[Result], seconds: float, seed: int) -> dict[str, Any]:
    return {
        "passed": not any(result.failures for result in results),
        "seconds": round(seconds, 1),
        "seed": seed,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "servers": [_server(result) for result in results],
    }


def _server(result: Result) -> dict[str, Any]:
    return {
        "model": result.model,
        "passed": not result.failures,
        "failures": result.failures,
        "violations": result.ledger.violation_count,
        "checks": [{**vars(check), "passed": check.passed} for check in result.checks],
        "actions": result.ledger.table(),
        "responses": result.responses,
        "health_ms": result.health_ms,
        "model_loads": result.model_loads,
        "clock_jumps": result.clock_jumps,
        "longest_callback_cpu_s": result.longest_callback_s,
        "series": [dict(reading) for reading in result.series],
    }


def as_table(results: Sequence[Result]) -> str:
    lines = []
    for result in results:
        lines += [f"{result.model}: {'passed' if not result.failures else 'FAILED'}", ""]
        lines.append(f"  {'at rest':14}{'start':>10}{'end':>10}{'allowed':>10}")
        for check in result.checks:
            allowed, mark = f"+{check.allowed:g}", "" if check.passed else "   FAILED"
            lines.append(f"  {check.name:14}{check.before:10.6g}{check.after:10.6g}{allowed:>10}{mark}")
        lines += ["", f"  {'clients':22}endings"]
        for behaviour, endings in result.ledger.table().items():
            found = ", ".join(f"{ending} {count}" for ending, count in endings.items())
            lines.append(f"  {behaviour.replace('_', ' '):22}{found}")
        lines.append("")
        lines.append(f"  responses {result.responses}, /health ms {result.health_ms}")
        lines.append(
            f"  rounds {len(result.series)}, model loads {result.model_loads}, clock jumps {result.clock_jumps}"
        )
        lines += [f"  FAILED  {failure}" for failure in result.failures[:20]]
        lines.append("")
    return "\n".join(lines)


def write(path: Path, report: dict[str, Any]) -> None:
    path.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
