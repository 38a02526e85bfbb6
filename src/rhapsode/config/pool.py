"""Several models of one server: which are loaded when, and how much memory they may take."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from rhapsode.config import Deployment, merge, validated
from rhapsode.config.section import Count, Seconds
from rhapsode.config.served import ServedModel, ServedModels
from rhapsode.errors import ConfigError


class PooledModel(ServedModel):
    """One model of a server that has several."""

    load: Literal["start", "request"] | None = None
    """When it is loaded: with the server, or by its first request. By default the first model is loaded with the
    server, and so are pinned ones."""
    pinned: bool = False
    """It is never unloaded."""


class PoolConfig(ServedModels):
    """A server with several models. Each is unloaded after `server.idle_unload_s`, or when another needs its room."""

    models: Annotated[dict[str, PooledModel], Field(min_length=1)]
    most_loaded: Count | None = None
    """Models that are loaded at once; by default as many as memory allows."""
    memory_bytes: Count | None = None
    """Memory of all models together; by default what the machine has free. Memory of GPUs is not counted: there a
    model that does not fit takes the room of another."""
    load_pause_s: Seconds = 10.0
    """The pause before a model that could not be loaded is tried again, where it should always be there."""

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        at_start = [name for name in self.models if self.loads_at_start(name)]
        pinned = [name for name, model in self.models.items() if model.pinned]
        if self.most_loaded is None:
            return self
        if len(at_start) > self.most_loaded:
            raise ValueError(f"{len(at_start)} models are loaded at the start, and most_loaded is {self.most_loaded}")
        if len(pinned) == self.most_loaded < len(self.models):
            raise ValueError("pinned models leave no room for the others: raise most_loaded")
        return self

    def loads_at_start(self, name: str) -> bool:
        model = self.models[name]
        if model.load is not None and not model.pinned:
            return model.load == "start"
        return model.pinned or name == next(iter(self.models))

    def is_always_there(self, name: str) -> bool:
        return self.models[name].pinned


def names_several(content: Mapping[str, Any]) -> bool:
    """Returns whether the content of a deployment file is about several models."""
    return "models" in content


def pooled(content: Mapping[str, Any], file: Path | None = None) -> PoolConfig:
    """Returns the configuration of a server with several models, or raises `ConfigError`.

    Keys of a deployment beside `models` are for every model that does not set them itself.
    """
    own = {name: value for name, value in content.items() if name in PoolConfig.model_fields}
    common = {name: value for name, value in content.items() if name not in own}
    if "model" in common:
        raise ConfigError("'model' is for one model, and 'models' for several: use one of them.")
    problems = []
    for section, part in ((Deployment, common), (PoolConfig, own)):  # apart, so that errors name keys as in the file
        try:
            validated(section, part, file)
        except ConfigError as error:
            problems.append(error.message)
    if problems:
        raise ConfigError("\n".join(problems))
    models = own["models"]
    if isinstance(models, Mapping):
        own["models"] = {name: _with_common(common, model) for name, model in models.items()}
    return validated(PoolConfig, own, file)


def _with_common(common: Mapping[str, Any], model: Any) -> Any:
    model = {} if model is None else model
    deployment = model.get("deployment") or {} if isinstance(model, Mapping) else None
    if not isinstance(deployment, Mapping):
        return model
    merged: dict[str, Any] = {}
    merge(merged, common)
    merge(merged, deployment)
    return {**model, "deployment": merged}
