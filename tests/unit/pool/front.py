"""The front process of a pool in a thread of the tests, with stand-ins for the processes of its models."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from e2e.serve.running import Running
from rhapsode.config import Deployment
from rhapsode.config.pool import PoolConfig, pooled
from rhapsode.edge.report import ReplicaReport
from rhapsode.models.registry import described
from rhapsode.pool import model_pool
from rhapsode.pool.messages import Serving
from rhapsode.pool.run import pool_server
from rhapsode.pool.server import PoolServer
from rhapsode.serve.ports import listen

GONE = "http://127.0.0.1:9"
MIB = 2**20


class StandIn:
    """Stands for the process of a model: loaded at once, and in use as long as a test says."""

    sizes: ClassVar[dict[str, int]] = {}
    """MiB of a model's process; of others one."""

    def __init__(self, name: str, deployment: Deployment, on_change: Callable[[], None]) -> None:
        self.deployment, self._on_change = deployment, on_change
        self.state: Serving | None = None
        self.has_ended = False

    async def ready(self) -> None:
        await asyncio.sleep(0)
        self.says(in_use=0)

    def says(self, in_use: int) -> None:
        report = ReplicaReport(str(id(self)), GONE, in_use, 4, (), takes_voices=False)
        size = self.sizes.get(self.deployment.model, 1) * MIB
        self.state = Serving(report, in_use, time.monotonic(), size)
        self._on_change()

    async def leave(self) -> bool:
        if self.state is not None and self.state.in_use:
            return False
        await self.end()
        return True

    async def end(self, *, at_once: bool = False) -> None:
        await asyncio.sleep(0)
        self.state, self.has_ended = None, True
        self._on_change()


@contextmanager
def front(config: PoolConfig) -> Iterator[tuple[PoolServer, Running]]:
    """The server of a pool, until the block is left."""
    server = pool_server(config, {name: described(config.deployment(name).model) for name in config.models})
    listener = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    running = Running(None, f"http://127.0.0.1:{listener.getsockname()[1]}", [])
    try:
        while not server.started:
            time.sleep(0.01)
        yield server, running
    finally:
        running.close()
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def stand_in(monkeypatch: pytest.MonkeyPatch, kind: Callable[..., Any] = StandIn) -> None:
    """Starts no processes: each model has a stand-in."""
    monkeypatch.setattr(model_pool, "ModelServer", kind)


def lazy(*names: str, **settings: Any) -> PoolConfig:
    """The configuration of models that are all loaded by their first request."""
    models = {name: {"load": "request", "deployment": {"model": "dummy"}} for name in names}
    return pooled({"device": "cpu", "models": models, **settings})
