"""A report: results, together with what is needed to check and to repeat the measurement."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rhapsode.bench.machine import machine, revision, versions
from rhapsode.bench.stats import rounded, summarize
from rhapsode.errors import InvalidRequest, OutputError

SCHEMA_VERSION = 1
SCHEMA = Path(__file__).with_name("schema.json")


@dataclass(frozen=True)
class Run:
    """The results of one setting: its label, its samples by metric, and further facts."""

    label: str
    samples: Mapping[str, Sequence[float]]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        kept = {name: [rounded(v) for v in values] for name, values in self.samples.items() if len(values)}
        return {
            "label": self.label,
            **self.facts,
            "summary": {name: summarize(values).as_dict() for name, values in kept.items()},
            "samples": kept,
        }


def compose(
    kind: str, config: Mapping[str, Any], seed: int, runs: Sequence[Run], notes: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the whole report as JSON types."""
    return {
        "schema": SCHEMA_VERSION,
        "kind": kind,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv[1:],
        "machine": machine(),
        "versions": versions(),
        "revision": revision(),
        "seed": seed,
        "config": dict(config),
        "notes": list(notes),
        "runs": [run.as_dict() for run in runs],
    }


def check_writable(path: Path) -> None:
    """Raises before the measurement if its report could not be written."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise OutputError(f"cannot write {path}: it must be a file in a directory that exists.")


def write(report: Mapping[str, Any], path: Path) -> None:
    try:
        path.write_text(json.dumps(finite(report), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}.") from None


def read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror or error}.") from None
    except ValueError:
        raise InvalidRequest(f"{path} is not JSON.") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA_VERSION or "runs" not in content:
        raise InvalidRequest(f"{path} is not a report of `rhapsode bench` (schema {SCHEMA_VERSION}).")
    return content


def finite(value: Any) -> Any:
    """Replaces NaN and infinities, which JSON does not have, by null."""
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
