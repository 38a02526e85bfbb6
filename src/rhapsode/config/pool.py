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
    """Memory of all models together; by default what the machine has free. Memory of GPUs is not counted: there each
    model has its `memory.share`, and one that does not fit takes the room of another."""
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

    @model_validator(mode="after")
    def _speaks_http_alone(self) -> Self:
        if any(self.deployment(name).server.wyoming.port is not None for name in self.models):
            raise ValueError("server.wyoming.port is for a server with one model: the protocol cannot name another")
        return self

    @model_validator(mode="after")
    def _shares_gpus(self) -> Self:
        pinned = [name for name, model in self.models.items() if model.pinned]
        for gpu in {_gpu(self.models[name].deployment.device) for name in pinned} - {None}:
            taken = sum(self._own_share(name) or 0.0 for name in pinned if self._is_on(name, gpu))
            if taken > 1:
                raise ValueError(f"pinned models have memory.share of {taken:g} together on one GPU: at most 1 fits")
        return self

    def deployment(self, name: str) -> Deployment:
        """Returns the deployment of one model, with its share of a GPU where others are there at the same time."""
        deployment = super().deployment(name)
        memory = deployment.memory.model_copy(update={"share": self._share(name)})
        return deployment.model_copy(update={"memory": memory})

    def _share(self, name: str) -> float | None:
        """Returns which part of its GPU a model may take: what it sets, or an equal part of what others leave."""
        gpu, own = _gpu(self.models[name].deployment.device), self._own_share(name)
        if gpu is None or own is not None:
            return own
        here = [other for other in self.models if self._is_on(other, gpu)]
        pinned = [other for other in here if self.models[other].pinned]
        at_once = min(len(here), self.most_loaded or len(pinned) + 1)
        set_here = [share for other in pinned if (share := self._own_share(other)) is not None]
        sharers = at_once - len(set_here)
        left = 1.0 - sum(set_here)
        return None if at_once < 2 or left <= 0 else left / max(1, sharers)

    def _own_share(self, name: str) -> float | None:
        return self.models[name].deployment.memory.share

    def _is_on(self, name: str, gpu: int | None) -> bool:
        return _gpu(self.models[name].deployment.device) == gpu

    def loads_at_start(self, name: str) -> bool:
        model = self.models[name]
        if model.load is not None and not model.pinned:
            return model.load == "start"
        return model.pinned or name == next(iter(self.models))

    def is_always_there(self, name: str) -> bool:
        return self.models[name].pinned

    def loading_order(self) -> list[str]:
        """Returns the models that are loaded with the server: pinned ones first, so that they find the most room."""
        return sorted(filter(self.loads_at_start, self.models), key=lambda name: not self.models[name].pinned)


def _gpu(device: str) -> int | None:
    """Returns the number of the GPU that a device may be; None for a CPU."""
    kind, _, number = device.partition(":")
    return None if kind == "cpu" else int(number or 0)


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
