"""Finds families: every folder here with a `spec.py`, and every `rhapsode.models` entry point."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import rhapsode.models
from rhapsode.checkpoints import hub
from rhapsode.checkpoints.folder import read_config
from rhapsode.errors import CheckpointError, MissingDependency, UnknownModel, did_you_mean
from rhapsode.models.base import ModelSpec

ENTRY_POINTS = "rhapsode.models"
PACKAGED: Mapping[str, Path] = {"rhapsode-nano": Path(rhapsode.models.__path__[0]).parent / "nano"}
"""Checkpoints that are part of this package, by name."""


@dataclass(frozen=True)
class Broken:
    """A family that was found but could not be read."""

    name: str
    error: str


@dataclass(frozen=True)
class Model:
    """A family, and the checkpoint to run it on where it needs one."""

    spec: ModelSpec
    checkpoint: Path | None
    config: Mapping[str, Any]


@cache
def families() -> tuple[Mapping[str, ModelSpec], tuple[Broken, ...]]:
    """All families by name, and those that are broken."""
    found: dict[str, ModelSpec] = {}
    broken: list[Broken] = []
    for name, where in _candidates():
        try:
            spec = _read(where)
            if spec.name in found:
                raise ValueError(f"another family is called '{spec.name}' already")
            found[spec.name] = spec
        except (Exception, SystemExit) as error:  # whatever a plugin does wrong is reported, never fatal
            broken.append(Broken(name, f"{type(error).__name__}: {error}"))
    return found, tuple(broken)


def find(model: str) -> Model:
    """A family by name, or by the `architectures` of a checkpoint: packaged, a folder, or `owner/name` on a hub."""
    specs, broken = families()
    if model in specs:
        return Model(_usable(specs[model]), None, {})
    if folder := PACKAGED.get(model) or _folder(model):
        return _match(folder, model)
    if hub.is_id(model):
        found = _match(hub.fetch(model, ("config.json",)), model)  # a model nobody here runs is not downloaded
        return replace(found, checkpoint=hub.fetch(model, hub.FILES + found.spec.files))
    for one in broken:
        if one.name == model:
            raise UnknownModel(f"the family '{model}' is broken ({one.error}); `rhapsode doctor` tells more.")
    offered = [*PACKAGED, *(name for name, spec in specs.items() if not spec.hidden)]
    raise UnknownModel(
        f"there is no family and no checkpoint folder '{model}': {did_you_mean(model, offered)}",
        param="model",
    )


def missing(spec: ModelSpec) -> list[str]:
    """The modules this family needs and does not have here."""
    return [name for name in spec.requires if not _importable(name)]


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:  # a parent package is missing
        return False


def how_to_get(spec: ModelSpec) -> str:
    return f'pip install "rhapsode[{spec.extra}]"' if spec.extra else f"pip install {' '.join(spec.requires)}"


def _folder(model: str) -> Path | None:
    try:
        folder = Path(model).expanduser()
        return folder if folder.is_dir() else None
    except (OSError, ValueError, RuntimeError):  # too long, a null byte, the home of nobody: no folder
        return None


def _match(folder: Path, model: str) -> Model:
    """The family that runs the architecture of this checkpoint."""
    specs, _ = families()
    config = read_config(folder)
    architectures = config.get("architectures") or ([one] if (one := config.get("architecture")) else [])
    if not isinstance(architectures, list):
        raise CheckpointError(f"'architectures' of {folder / 'config.json'} must be a list, not {architectures!r}.")
    architectures = [str(a) for a in architectures]
    for spec in specs.values():
        if set(architectures) & set(spec.architectures):
            return Model(_usable(spec), folder, config)
    known = sorted(a for spec in specs.values() for a in spec.architectures)
    raise UnknownModel(
        f"no family here runs the architectures {architectures} of {model}; known: {', '.join(known) or 'none'}."
    )


def _usable(spec: ModelSpec) -> ModelSpec:
    if lacking := missing(spec):
        raise MissingDependency(f"{spec.name} needs {', '.join(lacking)}: {how_to_get(spec)}")
    return spec


def _candidates() -> Iterator[tuple[str, str]]:
    for root in rhapsode.models.__path__:
        for path in sorted(Path(root).glob("*/spec.py")):
            yield path.parent.name, f"rhapsode.models.{path.parent.name}.spec:SPEC"
    for point in entry_points(group=ENTRY_POINTS):
        yield point.name, point.value


def _read(where: str) -> ModelSpec:
    module, _, attribute = where.partition(":")
    spec = getattr(importlib.import_module(module), attribute or "SPEC")
    if not isinstance(spec, ModelSpec):
        raise TypeError(f"{where} is not a ModelSpec")
    return spec
