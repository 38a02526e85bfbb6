"""Which models a cluster serves, with how many replicas."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from rhapsode.config import Deployment, from_env, merge, read_file, validated
from rhapsode.config.section import Count, Seconds, Section
from rhapsode.config.served import ServedModel, ServedModels
from rhapsode.config.server import ServerConfig
from rhapsode.errors import ConfigError

Share = Annotated[float, Field(gt=0, le=1)]


class ReplicaCount(Section):
    """How many replicas of a model may run."""

    min: Annotated[int, Field(ge=0)] = 1
    """0: the last replica ends when nobody speaks, and the next request waits for a new one."""
    max: Count = 1

    @model_validator(mode="before")
    @classmethod
    def _one_number(cls, value: Any) -> Any:
        return {"min": value, "max": value} if isinstance(value, int) else value

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min > self.max:
            raise ValueError("replicas.min is more than replicas.max")
        return self


class Scaling(Section):
    """When replicas are added and removed. The load of a replica is its slots in use plus its queue."""

    target: Share = 0.7
    """The share of a replica's capacity that should be in use. Capacity is the number of listeners it can serve in real
    time, or its slots."""
    window_s: Annotated[float, Field(gt=0)] = 5.0
    """The load is averaged over so long."""
    up_delay_s: Seconds = 2.0
    down_delay_s: Seconds = 60.0
    to_zero_delay_s: Seconds = 300.0


class ClusterModel(ServedModel):
    """One model of a cluster: its deployment, and what each of its replicas needs."""

    replicas: ReplicaCount = ReplicaCount()
    gpus: Annotated[float, Field(ge=0)] = 0.0
    """GPUs of one replica; a fraction shares a GPU."""
    cpus: Annotated[float, Field(ge=0)] = 1.0
    resources: dict[str, float] = Field(default_factory=dict)
    """Custom resources of Ray that a replica needs, to place it on certain machines."""
    scaling: Scaling = Scaling()


class ClusterConfig(ServedModels):
    """Models behind one address. `server` is the section of a deployment, for the edge and for every replica."""

    models: Annotated[dict[str, ClusterModel], Field(min_length=1)]
    edges: Count = 1
    """Processes that accept connections, at most one on a machine."""
    replica_host: str | None = None
    """The address replicas listen on: by default loopback if the edge does, otherwise the address of their machine."""

    def is_always_there(self, name: str) -> bool:
        return self.models[name].replicas.min > 0

    def for_edge(self) -> ClusterConfig:
        """Returns the part that an edge needs. All else may change without a new edge, which would cut connections."""
        models = {}
        for name, model in self.models.items():
            server = ServerConfig(model_aliases=self.deployment(name).server.model_aliases)
            models[name] = ClusterModel(
                deployment=Deployment(model=model.deployment.model, server=server),
                replicas=ReplicaCount(min=min(1, model.replicas.min)),
            )
        return self.model_copy(update={"models": models})


def as_plain(section: Deployment | ClusterConfig) -> dict[str, Any]:
    """Returns the keys and values that make this section: always the same for the same section, and no secret.

    Ray replaces a replica when the arguments of its deployment change, and compares them byte by byte. It keeps them,
    and shows them to whoever reaches it. So keys of clients are in a file on every machine.
    """
    if section.server.api_keys and section.server.api_keys_file is None:
        raise ConfigError(
            "server.api_keys would be readable by everybody who can read Ray's metadata: write the keys to a file on "
            "every machine, and name it as server.api_keys_file."
        )
    content = section.model_dump(mode="json", exclude_unset=True)
    for name in ("api_keys", "key_dialects"):  # the file has both
        content.get("server", {}).pop(name, None)
    return content


def is_about_cluster(content: Mapping[str, Any]) -> bool:
    """Returns whether the content of a file is about a cluster, and not about several models of one server."""
    models = content.get("models")
    own = ClusterModel.model_fields.keys() - ServedModel.model_fields.keys()
    settings = ClusterConfig.model_fields.keys() - ServedModels.model_fields.keys()
    each = models.values() if isinstance(models, Mapping) else ()
    return bool(settings & content.keys()) or any(isinstance(one, Mapping) and own & one.keys() for one in each)


def read_cluster(content: Mapping[str, Any], env: Mapping[str, str] = os.environ) -> ClusterConfig:
    """Returns the configuration of a cluster, or raises `ConfigError`.

    `file` in the content names a YAML file. `RHAPSODE_SERVER__*` variables override it, and all else in the content
    overrides both.
    """
    given = dict(content)
    file = given.pop("file", None)
    merged = read_file(Path(file)) if file else {}
    merge(merged, {name: value for name, value in from_env(env).items() if name == "server"})
    merge(merged, given)
    return validated(ClusterConfig, merged, Path(file) if file else None)
