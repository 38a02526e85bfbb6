"""All that is wrong with a deployment or cluster file, before anything is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rhapsode.config import MOST_PROBLEMS, Deployment, merge, validated
from rhapsode.config.cluster import ClusterConfig, is_about_cluster, read_cluster
from rhapsode.config.lines import Keys, lines_of
from rhapsode.config.pool import PoolConfig, names_several, pooled
from rhapsode.errors import ConfigError, RhapsodeError
from rhapsode.models.deployment_check import check_deployment
from rhapsode.types import ModelInfo

CHECKED = ("model", "options", "stages", "companions", "lexicon", "alignment")
"""Keys of a deployment that say more than their types."""


@dataclass(frozen=True)
class CheckedModel:
    """A model of a file, and what it can do; that is not known of a checkpoint on the hub unless the hub was asked."""

    name: str
    info: ModelInfo | None


@dataclass(frozen=True)
class CheckedConfig:
    """A configuration that is right."""

    config: Deployment | PoolConfig | ClusterConfig
    models: Sequence[CheckedModel]


def checked(content: Mapping[str, Any], file: Path | None = None, *, asks_hub: bool = True) -> CheckedConfig:
    """Returns the configuration, or raises one error with all problems, each with its line in `file`."""
    lines = lines_of(file.read_text("utf-8")) if file else {}
    config: Deployment | PoolConfig | ClusterConfig | None = None
    told: dict[str, RhapsodeError] = {}
    try:
        config = _parsed(content, file)
    except ConfigError as error:
        told |= {line: ConfigError(line) for line in error.message.splitlines()}
    models = []
    for at, part in _deployments(content):
        deployment = _valid_part(part)
        found = check_deployment(deployment, asks_hub=asks_hub)
        models.append(CheckedModel(deployment.model, found.info))
        for problem in found.problems:
            line = _line((*at, *problem.keys), problem.keys, lines)
            where = f"{file}:{line}: " if line else ""
            told[f"{where}{problem.error.message}"] = problem.error
    if len(told) == 1 and file is None:
        raise next(iter(told.values()))
    if told or config is None:
        raise ConfigError("\n".join(sorted(told, key=lambda text: _number(text, file))[:MOST_PROBLEMS]))
    return CheckedConfig(config, models)


def _parsed(content: Mapping[str, Any], file: Path | None) -> Deployment | PoolConfig | ClusterConfig:
    if is_about_cluster(content):
        return read_cluster({"file": file} if file else content)
    return pooled(content, file) if names_several(content) else validated(Deployment, content, file)


def _deployments(content: Mapping[str, Any]) -> Iterator[tuple[Keys, Mapping[str, Any]]]:
    """Yields the keys and values of each model's deployment, and where they stand; also of files with errors."""
    if not names_several(content):
        yield (), content
        return
    models = content["models"]
    common = {} if is_about_cluster(content) else {k: v for k, v in content.items() if k not in PoolConfig.model_fields}
    for name, model in models.items() if isinstance(models, Mapping) else ():
        own = model.get("deployment") if isinstance(model, Mapping) else None
        merged: dict[str, Any] = {}
        for layer in (common, {"model": name}, own):
            merge(merged, layer if isinstance(layer, Mapping) else {})
        yield ("models", name, "deployment"), merged


def _valid_part(content: Mapping[str, Any]) -> Deployment:
    """Returns a deployment with those of the checked keys whose types are right."""
    right: dict[str, Any] = {}
    for key in CHECKED:
        with suppress(ConfigError):
            if key in content:
                validated(Deployment, {key: content[key]})
                right[key] = content[key]
    return validated(Deployment, right)


def _line(full: Keys, common: Keys, lines: Mapping[Keys, int]) -> int | None:
    """Returns the line of a model's key: its own, or that of the key for all models, or that of the model's name."""
    return next((lines[keys] for keys in (full, common, full[:2], full[:1]) if keys in lines), None)


def _number(text: str, file: Path | None) -> int:
    """Returns the line that a message is about."""
    found = re.match(rf"{re.escape(str(file))}:(\d+): ", text)
    return int(found[1]) if found else 0
