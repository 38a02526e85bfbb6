"""Finds what is wrong with a deployment beyond its keys and values, without loading weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rhapsode.alignment.loading import aligned_languages
from rhapsode.checkpoints import hub
from rhapsode.checkpoints.folder import as_folder
from rhapsode.config import Deployment
from rhapsode.errors import ConfigError, RhapsodeError, did_you_mean
from rhapsode.models.registry import check_family, described, families
from rhapsode.models.settings import parse_settings
from rhapsode.models.spec import ModelSpec
from rhapsode.text.lexicon import Lexicon
from rhapsode.types import ModelInfo


@dataclass(frozen=True)
class Problem:
    """Something that is wrong, and the keys of the deployment under which it stands."""

    keys: tuple[str, ...]
    error: RhapsodeError


@dataclass
class Checked:
    """What was found out about a deployment."""

    problems: list[Problem]
    info: ModelInfo | None = None
    """What the model can do, if there is such a model and it was asked for."""


def check_deployment(deployment: Deployment, *, asks_hub: bool = True) -> Checked:
    """Checks the model, its options, stages and companions, the lexicon and the aligner.

    Without `asks_hub`, the family of a checkpoint on the hub is not known, nor what depends on it.
    """
    checked = Checked([])

    def tried(keys: tuple[str, ...], check: Callable[[], Any]) -> Any:
        try:
            return check()
        except RhapsodeError as error:
            checked.problems.append(Problem(keys, error))
            return None

    if asks_hub or not _is_remote(deployment.model):
        found = tried(("model",), lambda: _found(deployment.model))
        if found is not None:
            spec, checked.info = found
            checked.problems += [*stage_problems(spec, deployment), *companion_problems(spec, deployment)]
            for name, value in deployment.options.items():
                tried(("options", name), lambda one={name: value}: parse_settings(spec, one))  # type: ignore[misc]
            if not any(problem.keys[0] == "options" for problem in checked.problems):
                tried(("options",), lambda: parse_settings(spec, deployment.options))
    tried(("lexicon",), lambda: Lexicon.read(deployment.lexicon))
    tried(("alignment", "model"), lambda: aligned_languages(deployment.alignment))
    return checked


def stage_problems(spec: ModelSpec, deployment: Deployment) -> Iterator[Problem]:
    known = [stage.name for stage in spec.pipeline]
    for name in deployment.stages:
        if name not in known:
            error = ConfigError(f"{spec.name} has no stage '{name}': {did_you_mean(name, known)}")
            yield Problem(("stages", name), error)


def companion_problems(spec: ModelSpec, deployment: Deployment) -> Iterator[Problem]:
    known = [companion.name for companion in spec.companions]
    for name, where in deployment.companions.items():
        said = ""
        if name not in known:
            said = f"{spec.name} has no companion '{name}': {did_you_mean(name, known)}"
        elif not (as_folder(where) or hub.is_id(where)):
            said = f"companions.{name} is '{where}', which is no folder and no owner/name on a hub."
        if said:
            yield Problem(("companions", name), ConfigError(said))


def _found(model: str) -> tuple[ModelSpec, ModelInfo]:
    check_family(model)
    return described(model)


def _is_remote(model: str) -> bool:
    return model not in families()[0] and as_folder(model) is None and hub.is_id(model)
