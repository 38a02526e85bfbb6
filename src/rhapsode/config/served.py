"""Several models behind one address: what a cluster and a pool of processes have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from rhapsode.config import Deployment
from rhapsode.config.section import Section
from rhapsode.config.server import ServerConfig


class ServedModel(Section):
    deployment: Deployment = Deployment()


class ServedModels(Section):
    """Models behind one address. `server` is the section of a deployment, for the edge and for every model."""

    models: Mapping[str, ServedModel]
    """By name. The first one answers requests that name no model, or one of OpenAI's."""
    server: ServerConfig = ServerConfig()
    cold_start_s: Annotated[float, Field(gt=0)] = 120.0
    """How long a request waits for a model that is being loaded; then the answer is 503."""
    max_waiting: Annotated[int, Field(ge=0)] = 128
    """Requests of one model that wait until it is loaded; further ones are refused with 429."""

    @model_validator(mode="before")
    @classmethod
    def _named_models(cls, value: Any) -> Any:
        """Uses a model's name as its `deployment.model`, where the deployment names none."""
        if not isinstance(value, Mapping) or not isinstance(value.get("models"), Mapping):
            return value
        models = {name: _with_model(str(name), model) for name, model in value["models"].items()}
        return {**value, "models": models}

    @abstractmethod
    def is_always_there(self, name: str) -> bool:
        """Returns whether a model should be loaded while nobody speaks, too."""

    def deployment(self, name: str) -> Deployment:
        """Returns the deployment of one model: the common server section, with what the model overrides."""
        deployment = self.models[name].deployment
        server = deployment.server
        own = {field: getattr(server, field) for field in server.model_fields_set}
        if "api_keys" in own:
            own.setdefault("api_keys_file", None)
        own.pop("keep_alive_s", None)  # the edge lets go of connections to all replicas a little sooner than they do
        merged = self.server.model_copy(update=own)
        aliases = dict.fromkeys((*merged.model_aliases, name))
        merged = merged.model_copy(update={"model_aliases": tuple(aliases)})
        return deployment.model_copy(update={"server": merged})


def _with_model(name: str, model: Any) -> Any:
    model = {} if model is None else model
    if not isinstance(model, Mapping):
        return model
    deployment = model.get("deployment") or {}
    if not isinstance(deployment, Mapping) or "model" in deployment:
        return model
    return {**model, "deployment": {"model": name, **deployment}}
