"""Finds families (every folder here with a `spec.py`, every `rhapsode.models` entry point) and checkpoints."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import rhapsode.models
from rhapsode.checkpoints import hub
from rhapsode.checkpoints.folder import as_folder, read_config
from rhapsode.errors import CheckpointError, MissingDependency, UnknownModel, did_you_mean
from rhapsode.extras import how_to_add, how_to_install
from rhapsode.models.describe import describe
from rhapsode.models.lazy import import_name
from rhapsode.models.packaged import PACKAGED
from rhapsode.models.spec import Layout, ModelSpec
from rhapsode.types import ModelInfo

ENTRY_POINTS = "rhapsode.models"


@dataclass(frozen=True)
class Broken:
    """A family whose spec could not be imported."""

    name: str
    error: str


@dataclass(frozen=True)
class Model:
    """A family, and the checkpoint to run it on where it needs one."""

    spec: ModelSpec
    checkpoint: Path | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    """The content of the checkpoint's configuration file."""

    def info(self, options: Mapping[str, Any] | None = None) -> ModelInfo:
        """Returns what the checkpoint can do; without one, what the family can do. `options`: of a deployment."""
        return describe(self.spec, self.checkpoint, self.config, options)

    def check_checkpoint(self) -> None:
        """Raises if the family needs a checkpoint and there is none."""
        if self.checkpoint is None and self.spec.published:
            known = " or ".join(self.spec.published)
            first = f"install one by `{self.spec.install}`, " if self.spec.install else ""
            raise CheckpointError(
                f"{self.spec.name} needs a checkpoint: {first}give its folder, or its Hugging Face id, such as {known}."
            )


def check_family(model: str) -> None:
    """Raises if a model is the name of a family that needs a checkpoint."""
    if model in families()[0]:
        Model(families()[0][model]).check_checkpoint()


@cache
def families() -> tuple[Mapping[str, ModelSpec], tuple[Broken, ...]]:
    """Returns all families by name, and those that are broken."""
    found: dict[str, ModelSpec] = {}
    broken: list[Broken] = []
    for name, where in _candidates():
        try:
            for spec in _read(where):
                if spec.name in found:
                    raise ValueError(f"another family is called '{spec.name}' already")
                found[spec.name] = spec
        except (Exception, SystemExit) as error:  # whatever a plugin does wrong is reported, never fatal
            broken.append(Broken(name, f"{type(error).__name__}: {error}"))
    return found, tuple(broken)


def find(model: str) -> Model:
    """Returns the family of this name, or the checkpoint: packaged, a folder, or `owner/name` on the hub."""
    specs, broken = families()
    if model in specs:
        return _installed(_usable(specs[model]))
    if folder := PACKAGED.get(model) or as_folder(model):
        return _recognise(folder, model)
    if hub.is_id(model):
        found = _recognise_remote(model)
        return replace(found, checkpoint=hub.fetch(model, _files(found.spec), found.spec.unread, tell=True))
    for one in broken:
        if one.name == model:
            raise UnknownModel(f"the family '{model}' is broken ({one.error}); `rhapsode doctor` tells more.")
    offered = [*PACKAGED, *(name for name, spec in specs.items() if not spec.hidden)]
    raise UnknownModel(
        f"there is no family and no checkpoint folder '{model}': {did_you_mean(model, offered)}",
        param="model",
    )


def _installed(spec: ModelSpec) -> Model:
    """Returns a family, with the checkpoint that is installed for it on this machine, if any."""
    folder = import_name(spec.installed)() if spec.installed else None
    return Model(spec) if folder is None else _recognise(folder, spec.name)


def described(model: str, options: Mapping[str, Any] | None = None) -> tuple[ModelSpec, ModelInfo]:
    """Returns the family of a model and what it can do. Of a checkpoint on the hub, no weights are downloaded."""
    if model in families()[0] or PACKAGED.get(model) or as_folder(model) or not hub.is_id(model):
        found = find(model)
        return found.spec, found.info(options)
    found = _recognise_remote(model)
    with hub.outlined(model, _files(found.spec), found.spec.unread) as folder:
        return found.spec, replace(found, checkpoint=folder).info(options)


def missing(spec: ModelSpec) -> list[str]:
    """Returns the modules that this family needs and that are not installed."""
    return [name for name in spec.requires if not _importable(name)]


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:  # a parent package is missing
        return False


def how_to_get(spec: ModelSpec) -> str:
    """Returns the command that installs what a family needs."""
    return how_to_install(spec.extra) if spec.extra else how_to_add(" ".join(spec.requires))


def _recognise_remote(model: str) -> Model:
    """Fetches configuration files and the names of weight files: a checkpoint that no family runs is not downloaded."""
    layouts = [layout for spec in families()[0].values() for layout in spec.layouts if layout.on_hub]
    with hub.outlined(model, _config_files(layouts), ()) as folder:
        return _recognise(folder, model)


def _config_files(layouts: Iterable[Layout]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(layout.config for layout in layouts))


def _files(spec: ModelSpec) -> tuple[str, ...]:
    """Returns the files to download of a checkpoint, as shell patterns."""
    layouts = [layout for layout in spec.layouts if layout.on_hub]
    configs = [name for name in _config_files(layouts) if not any(fnmatch(name, usual) for usual in hub.FILES)]
    return (*hub.FILES, *configs, *spec.files)


def _recognise(folder: Path, model: str) -> Model:
    """Returns the checkpoint in a folder with the family that runs it."""
    known = [(layout, spec) for spec in families()[0].values() for layout in spec.layouts]
    known.sort(key=lambda pair: not (pair[0].where or pair[0].keys))  # layouts that only ask for a file are tried last
    layouts = {layout.config: layout for layout, _ in known}
    configs = {name: _content(layout, folder) for name, layout in layouts.items() if layout.files_in(folder)}
    if not configs:
        usual_first = sorted(layouts, key=lambda name: name != "config.json")
        raise CheckpointError(f"{folder} holds no {' or '.join(usual_first)}: it is not a checkpoint's folder.")
    for name, config in configs.items():
        if not isinstance(config.get("architectures", []), list | None):
            raise CheckpointError(
                f"'architectures' of {folder / name} must be a list, not {config['architectures']!r}."
            )
    for layout, spec in known:
        if layout.config in configs and _matches(layout, configs[layout.config]):
            return Model(_usable(spec), folder, configs[layout.config])
    keys = {key for layout, _ in known for key in layout.where}
    found = [f"{name} ({_said(config, keys)})" for name, config in configs.items()]
    raise UnknownModel(
        f"no family here runs {model}. It holds {', '.join(found)}. Known: {', '.join(str(one) for one, _ in known)}."
    )


def _content(layout: Layout, folder: Path) -> dict[str, Any]:
    return {} if layout.is_weights else read_config(folder, layout.config)


def _matches(layout: Layout, config: Mapping[str, Any]) -> bool:
    has_values = all(set(_values(config.get(key))) & set(wanted) for key, wanted in layout.where.items())
    return has_values and all(key in config for key in layout.keys)


def _values(value: Any) -> list[str]:
    return [str(one) for one in (value if isinstance(value, list) else [value]) if one is not None]


def _said(config: Mapping[str, Any], keys: Iterable[str]) -> str:
    """Returns what a configuration says under the keys by which checkpoints are recognised."""
    said = [f"{key}: {' or '.join(_values(config[key])) or 'nothing'}" for key in sorted(keys) if key in config]
    return ", ".join(said) or f"none of {', '.join(sorted(keys))}"


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


def _read(where: str) -> tuple[ModelSpec, ...]:
    """Returns the specs that a family's module has: one, or a tuple of the generations that share a folder."""
    found = import_name(where if ":" in where else f"{where}:SPEC")
    specs = found if isinstance(found, tuple) else (found,)
    if not specs or not all(isinstance(spec, ModelSpec) for spec in specs):
        raise TypeError(f"{where} is not a ModelSpec")
    return specs
