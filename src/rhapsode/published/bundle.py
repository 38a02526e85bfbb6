"""What a bug report on a checkpoint needs, as one zip file: no weights, and no texts of the user unless asked for."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

from rhapsode.audio.encode import encode
from rhapsode.bench.machine import machine, revision, versions
from rhapsode.checkpoints.header import tensor_shapes
from rhapsode.config import resolve
from rhapsode.errors import CheckpointError, OutputError, RhapsodeError
from rhapsode.published.beside import measure_beside
from rhapsode.published.checkpoint_faults import faults
from rhapsode.published.measure import CheckpointMeasurement
from rhapsode.tts import TTS
from rhapsode.types import Clip
from rhapsode.verify.modes import modes

CONFIGS = ("*config*.json", "*.yaml", "*.yml", "params.json")
LARGEST_CONFIG = 2**20
CLIPS, CLIP_S = 3, 3.0
README = """A bug report of rhapsode bench published.

findings.txt   what is wrong, in words: verify, the files, and the first step that differs from the other side
report.json    the same with all numbers; machine, versions, revision
configs/       the configuration files of the checkpoint
tensors.json   names, types and shapes of its tensors; no weights
clips/         a sentence of ours in up to three modes, 3 s each
"""


def pack(measurement: CheckpointMeasurement, path: Path, *, texts: bool = False) -> list[str]:
    """Writes the bundle and returns its findings."""
    folder = measurement.model.checkpoint
    beside, error = _beside(measurement)
    found = list(findings(measurement, beside))
    if error:
        found.append(f"beside: {error}")
    report = {
        "checkpoint": asdict(measurement.identity),
        "code": {"version": versions()["rhapsode"], "revision": revision()},
        "machine": machine(),
        "versions": versions(),
        "device": measurement.device,
        "verify": [vars(result) for result in measurement.verified],
        "findings": found,
        "beside": beside,
        "results": _results(measurement.progress.results, texts),
    }
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
            bundle.writestr("README.txt", README)
            bundle.writestr("findings.txt", "\n".join(found or ["nothing was found"]) + "\n")
            bundle.writestr("report.json", json.dumps(report, indent=1, default=str))
            if folder is not None:
                bundle.writestr("tensors.json", json.dumps(_tensors(folder), indent=1))
                for config in _configs(folder):
                    bundle.write(config, f"configs/{config.relative_to(folder).as_posix()}")
            for name, clip in _clips(measurement):
                bundle.writestr(f"clips/{name}.wav", encode(clip, "wav"))
    except OSError as failure:
        raise OutputError(f"cannot write {path}: {failure.strerror or failure}.") from None
    return found


def findings(measurement: CheckpointMeasurement, beside: Mapping[str, Any] | None) -> Iterator[str]:
    """Yields what is wrong in words, what explains the rest first."""
    if measurement.model.checkpoint is not None:
        yield from faults(measurement.model.checkpoint)
    for result in measurement.verified:
        if result.verdict in ("failed", "warning"):
            yield f"verify, {result.verdict}: {result.subject}: {' '.join((result.detail, *result.more))}"
    for sample in beside["samples"] if beside else ():
        for finding in sample["findings"]:
            yield f"beside {beside['upstream'] if beside else ''}, {sample['id']}: {finding}"


def _beside(measurement: CheckpointMeasurement) -> tuple[dict[str, Any] | None, str]:
    """Returns the comparison with the other side, where one was named; it is made now if it was not."""
    known = measurement.progress.results.get("beside")
    if known is not None or measurement.plan.beside is None:
        return known, ""
    try:
        given = (
            measurement.name,
            measurement.model,
            measurement.voices,
            measurement.plan.beside,
            None,
            measurement.device,
        )
        return measure_beside(*given), ""
    except RhapsodeError as error:
        return None, error.message


def _results(results: Mapping[str, Any], texts: bool) -> dict[str, Any]:
    """Returns what was measured, without what was said and heard unless that was asked for."""
    if texts:
        return dict(results)
    return {
        key: {name: value for name, value in result.items() if name not in ("text", "heard", "detail")}
        if key.startswith("sample/")
        else result
        for key, result in results.items()
        if key != "verify"
    }


def _tensors(folder: Path) -> dict[str, dict[str, str]]:
    found = {}
    for path in sorted(folder.rglob("*.safetensors")):
        try:
            shapes = tensor_shapes(path)
        except CheckpointError as error:
            found[path.relative_to(folder).as_posix()] = {"error": error.message}
            continue
        found[path.relative_to(folder).as_posix()] = {name: f"{kind} {shape}" for name, (kind, shape) in shapes.items()}
    return found


def _configs(folder: Path) -> list[Path]:
    found = {path for pattern in CONFIGS for path in folder.rglob(pattern)}
    return sorted(path for path in found if path.is_file() and path.stat().st_size <= LARGEST_CONFIG)


def _clips(measurement: CheckpointMeasurement) -> Iterator[tuple[str, Clip]]:
    """Yields the beginnings of sentences of ours; a checkpoint that does not speak has none."""
    flags = {"model": measurement.name, "device": measurement.device, "graphs": False, "limits": {"max_concurrency": 1}}
    try:
        with TTS.opened(measurement.model, resolve(env={}, flags=flags)) as tts:
            info = tts.engine.info
            for mode in islice(modes(info, tts, measurement.voices.reference, 1), CLIPS):
                most = ceil(CLIP_S * info.frame_hz) if info.frame_hz else None
                try:
                    audio = tts.speak(replace(mode.request, text_open=False, max_frames=most))
                except RhapsodeError:
                    continue
                samples = audio.samples[:, : round(CLIP_S * audio.sample_rate)]
                yield mode.name.replace(" ", "-"), Clip(samples, audio.sample_rate)
    except RhapsodeError:
        return
