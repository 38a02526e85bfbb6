"""A row of the table: one checkpoint on one machine, with all that is needed to repeat the measurement."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from rhapsode.bench.machine import machine, revision, versions
from rhapsode.bench.quality import comparable, normalise
from rhapsode.bench.quality.measure import figures
from rhapsode.bench.report import finite
from rhapsode.bench.stats import percentile, rounded
from rhapsode.errors import InvalidRequest
from rhapsode.published.identity import Identity
from rhapsode.published.plan import PublishedPlan
from rhapsode.published.sample import item_of

SCHEMA_VERSION = 1
SCHEMA = Path(__file__).with_name("row.schema.json")
RUNAWAYS = ("runaway",)


def compose(identity: Identity, plan: PublishedPlan, results: Mapping[str, Any], left_out: int) -> dict[str, Any]:
    """Returns a row, sealed with the digest of its content."""
    recogniser = plan.heard_by.recogniser
    row = {
        "schema": SCHEMA_VERSION,
        "checkpoint": asdict(identity),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": _without_paths(sys.argv[1:]),
        "code": {"version": versions()["rhapsode"], "revision": revision()},
        "machine": {**machine(), "driver": _driver(), "device": _device(plan.device)},
        "versions": versions(),
        "seed": plan.seed,
        "prompts": plan.prompts_from,
        "recogniser": recogniser.name if recogniser else "none",
        "judges": [judge.name for judge in plan.heard_by.judges],
        "verify": _verified(results["verify"]),
        "quality": _quality(plan, results),
        "speed": [result for key, result in results.items() if key.startswith("speed/")],
        "beside": results.get("beside"),
        "left_out": left_out,
    }
    return seal(finite(row))


def seal(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row with the digest of what it says."""
    content = {name: value for name, value in row.items() if name != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return {**content, "digest": hashlib.sha256(text.encode()).hexdigest()}


def check_seal(row: Mapping[str, Any], where: str) -> None:
    """Raises if a row was changed after it was measured."""
    if seal(row)["digest"] != row.get("digest"):
        raise InvalidRequest(
            f"{where} was edited: its digest does not belong to its content. Rows are written by "
            "`rhapsode bench published` and never changed by hand."
        )


def write(row: Mapping[str, Any], path: Path) -> None:
    path.write_text(json.dumps(row, indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")


def read(path: Path) -> dict[str, Any]:
    """Reads a row; raises if it is no row, or was edited."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"{path} cannot be read as a row: {error}.") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA_VERSION:
        raise InvalidRequest(f"{path} is not a row of `rhapsode bench published` (schema {SCHEMA_VERSION}).")
    check_seal(content, str(path))
    return content


def _quality(plan: PublishedPlan, results: Mapping[str, Any]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for key, result in results.items():
        if key.startswith("sample/"):
            _, precision, mode, split, _ = key.split("/", 4)
            groups.setdefault((precision, mode, split), []).append(result)
    return [_group(plan, *key, found) for key, found in groups.items()]


def _group(plan: PublishedPlan, precision: str, mode: str, split: str, found: Sequence[Any]) -> dict[str, Any]:
    language = plan.languages[split]
    items = [item_of(result, mode) for result in found]
    good = [item for item in items if item.error is None]
    scores = figures(items, language)
    rule = comparable.rule_of(language)

    def middle(name: str, q: float = 50) -> float | None:
        values = [item.scores[name] for item in good if name in item.scores]
        return rounded(percentile(values, q)) if values else None

    def mean(name: str) -> float | None:
        values = [item.scores[name] for item in good if name in item.scores]
        return rounded(fmean(values)) if values else None

    return {
        "precision": precision,
        "mode": mode,
        "split": split,
        "language": language,
        "samples": len(items),
        "scored": scores["samples_scored"],
        "errors": scores["errors"],
        "wer": scores["wer"],
        "cer": scores["cer"],
        "comparable": {"normaliser": rule.normaliser, "metric": rule.metric, "rate": scores["comparable"]},
        "normaliser": normalise.NAME if language.startswith("en") else "case and punctuation",
        "similarity": mean("similarity"),
        "mos": mean("mos"),
        "dnsmos": mean("dnsmos"),
        "length": mean("length"),
        "silence": mean("silence"),
        "clipped": sum(item.clipped for item in items),
        "runaways": sum(item.error in RUNAWAYS for item in items),
        "first_audio_p50_ms": middle("first_audio_ms"),
        "rtf_p50": middle("rtf"),
        "audio_s": rounded(sum(result["audio_s"] or 0.0 for result in found)),
        "worst": [item.prompt.id for item in sorted(good, key=lambda item: -item.scores.get("comparable", 0.0))[:5]],
    }


def _verified(found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what `verify` said, without details of passed checks."""
    told = [one for one in found["results"] if one["verdict"] in ("warning", "note")]
    return {
        "verdict": found["verdict"],
        "checks": len(found["results"]),
        "told": [f"{one['verdict']}: {one['subject']}: {one['detail']}" for one in told],
    }


def _without_paths(arguments: Sequence[str]) -> list[str]:
    """Returns the command with the last parts of its paths: where a machine keeps its files is its own affair."""
    return [
        argument.rsplit("/", 1)[-1] if argument.startswith(("/", "~", "./", "../")) else argument
        for argument in arguments
    ]


def _driver() -> str | None:
    import torch

    if not torch.cuda.is_available():
        return None
    try:
        import ctypes

        library = ctypes.CDLL("libnvidia-ml.so.1")
        version = ctypes.create_string_buffer(80)
        library.nvmlInit_v2()
        library.nvmlSystemGetDriverVersion(version, 80)
        return version.value.decode()
    except OSError:
        return f"CUDA {torch.version.cuda}"


def _device(wish: str) -> str:
    from rhapsode.device.place import pick_device

    return str(pick_device(wish))
