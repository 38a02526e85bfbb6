"""The deployment of an edge: Ray keeps it running, and hands it the handles of all models."""

from __future__ import annotations

from typing import Any

from ray.serve.handle import DeploymentHandle
from starlette.types import ASGIApp

from rhapsode.cluster.ray_port import bind_to_node
from rhapsode.cluster.ray_source import RaySource
from rhapsode.config import validated
from rhapsode.config.cluster import ClusterConfig
from rhapsode.edge import buffers
from rhapsode.edge.edge import Edge
from rhapsode.edge.fleet import Fleet, ModelFleet
from rhapsode.edge.guarded import guarded
from rhapsode.edge.server import EdgeServer
from rhapsode.edge.server_thread import ServerThread
from rhapsode.errors import Unavailable
from rhapsode.serve.middleware.limits import uploads_of
from rhapsode.serve.observe.log_lines import configure
from rhapsode.serve.ports import listen
from rhapsode.serve.server import LAST_BYTES_S


class EdgeIngress:
    """Listens on the cluster's address. Requests that come through Ray's own proxy are answered, too."""

    def __init__(self, content: dict[str, Any], handles: dict[str, DeploymentHandle]) -> None:
        """`content` is what `as_plain` returns."""
        config = validated(ClusterConfig, content)
        bind_to_node()
        configure(config.server.log_format)
        self._config = config
        self._handles = handles
        self._edge = self._new_edge()
        listener = listen(config.server.host, config.server.port, shared=True)
        buffers.to_clients(listener)
        self._thread = ServerThread(EdgeServer(self._edge, config), listener)

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Returns the application for Ray's proxy: an edge of its own, since it runs in another event loop."""
        return guarded(self._new_edge(is_lazy=True), self._config, uploads_of(self._config.server))

    def address(self) -> str:
        """Returns where this edge listens."""
        return self._thread.url

    def check_health(self) -> None:
        if not self._thread.is_running:
            raise Unavailable("the server of this edge has ended.")

    async def __del__(self) -> None:
        """Stops accepting connections, and waits for the last request."""
        if not hasattr(self, "_thread"):
            return
        self._edge.is_draining = True
        await self._thread.ended(self._config.server.drain_timeout_s + LAST_BYTES_S)

    def _new_edge(self, *, is_lazy: bool = False) -> Edge:
        config = self._config
        models = {
            name: ModelFleet(name, RaySource(handle), config.cold_start_s, config.max_waiting)
            for name, handle in self._handles.items()
        }
        return Edge(config, Fleet(models), is_lazy=is_lazy)
