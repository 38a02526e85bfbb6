"""Finds families: every folder here with a `spec.py`, and every `rhapsode.models` entry point."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import rhapsode.models
from rhapsode.errors import CheckpointError, MissingDependency, UnknownModel, did_you_mean
from rhapsode.models.base import ModelSpec

ENTRY_POINTS = "rhapsode.models"


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
        except Exception as error:  # whatever a plugin does wrong is reported, never fatal, never swallowed
            broken.append(Broken(name, f"{type(error).__name__}: {error}"))
    return found, tuple(broken)


def find(model: str) -> Model:
    """A family by name, or by the `architectures` in the `config.json` of a checkpoint's folder."""
    specs, broken = families()
    if model in specs:
        return Model(_usable(specs[model]), None, {})
    folder = Path(model).expanduser()
    if folder.is_dir():
        config = _read_config(folder)
        architectures = [str(a) for a in config.get("architectures") or ()]
        for spec in specs.values():
            if set(architectures) & set(spec.architectures):
                return Model(_usable(spec), folder, config)
        known = sorted(a for spec in specs.values() for a in spec.architectures)
        raise UnknownModel(
            f"no family here runs the architectures {architectures} of {folder}; known: {', '.join(known) or 'none'}."
        )
    for one in broken:
        if one.name == model:
            raise UnknownModel(f"the family '{model}' is broken ({one.error}); `rhapsode doctor` tells more.")
    offered = [name for name, spec in specs.items() if not spec.hidden]
    raise UnknownModel(
        f"there is no family and no checkpoint folder '{model}': {did_you_mean(model, offered)}",
        param="model",
    )


def missing(spec: ModelSpec) -> list[str]:
    """The modules this family needs and does not have here."""
    return [name for name in spec.requires if importlib.util.find_spec(name) is None]


def how_to_get(spec: ModelSpec) -> str:
    return f'pip install "rhapsode[{spec.extra}]"' if spec.extra else f"pip install {' '.join(spec.requires)}"


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


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{folder} holds no config.json: it is not a checkpoint's folder.") from None
    except (OSError, ValueError):
        raise CheckpointError(f"{path} is not readable JSON.") from None
    if not isinstance(config, dict):
        raise CheckpointError(f"{path} must hold one JSON object.")
    return config
