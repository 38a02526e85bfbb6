"""One model of several in a server: whether it is loaded, and what is known of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from rhapsode.config import Deployment
from rhapsode.edge.report import ReplicaReport
from rhapsode.pool.process import ModelServer


@dataclass(eq=False)
class Member:
    """A model of the pool, loaded or not."""

    name: str
    deployment: Deployment
    is_pinned: bool
    memory_bytes: int = 0
    """What it took when it was loaded last; an estimate while it is loaded first."""
    server: ModelServer | None = None
    loading: asyncio.Task[None] | None = None
    loading_since_s: float | None = None
    is_leaving: bool = False
    failed_s: float | None = None
    """When it could not be loaded, or its process ended by itself."""
    loads: int = 0
    load_s: float | None = None
    """How long loading took last."""
    unloads: dict[str, int] = field(default_factory=lambda: {"idle": 0, "room": 0})

    @property
    def own_deployment(self) -> Deployment:
        """Returns what its process serves. That keeps the model, as the pool decides when to unload it."""
        server = self.deployment.server.model_copy(update={"idle_unload_s": None})
        return self.deployment.model_copy(update={"server": server})

    @property
    def idle_unload_s(self) -> float | None:
        return None if self.is_pinned else self.deployment.server.idle_unload_s

    @property
    def report(self) -> ReplicaReport | None:
        """Returns the report of its process, if that takes requests."""
        state = self.server.state if self.server is not None else None
        return state.report if state is not None and not self.is_leaving else None

    @property
    def idle_since_s(self) -> float | None:
        """Returns since when nobody has used it; None if somebody does, or if it is not loaded or about to end."""
        state = self.server.state if self.server is not None and not self.is_leaving else None
        return state.used_s if state is not None and not state.in_use else None
