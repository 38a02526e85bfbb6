"""One replica of a model: the server of `rhapsode serve`, inside an actor that Ray starts, checks and stops."""

from __future__ import annotations

import secrets
import signal
import time
from typing import Any

import ray.util
from ray import serve

from rhapsode.cluster.ray_port import bind_to_node
from rhapsode.config import Deployment, validated
from rhapsode.edge.report import ReplicaReport, capacity, reported
from rhapsode.edge.server_thread import TICK_S, ServerThread
from rhapsode.errors import Unavailable
from rhapsode.serve.app import create_app
from rhapsode.serve.observe.log_lines import configure
from rhapsode.serve.ports import listen
from rhapsode.serve.server import LAST_BYTES_S, Server
from rhapsode.serve.service import Service


class ModelReplica:
    """Serves one model on a port of its own. Ray's calls are for control alone; audio never passes through Ray."""

    def __init__(self, content: dict[str, Any], host: str | None) -> None:
        """Returns once the model is warm. If it cannot be loaded the error reaches Ray, which tries again.

        `content` is what `as_plain` returns.
        """
        deployment = validated(Deployment, content)
        bind_to_node()
        configure(deployment.server.log_format)
        self._secret = secrets.token_urlsafe(24)
        app = create_app(deployment, edge_secret=self._secret)
        self._service: Service = app.state.service
        self._id: str = serve.get_replica_context().replica_id.unique_id
        self._server = Server(app)
        self._thread = ServerThread(self._server, listen(host or ray.util.get_node_ip_address(), 0))
        while not self._service.host.warm:
            if not self._thread.is_running:
                raise self._server.failed or Unavailable("the server ended while the model was loaded.")
            time.sleep(TICK_S)

    def report(self) -> ReplicaReport:
        """Returns the state of this replica, for the edge."""
        return reported(self._service, self._id, self._thread.url, self._secret)

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Returns the load and capacity, from which Ray decides the number of replicas."""
        load = self._service.host.readings().load
        return {"load": load.slots_in_use + load.queued, "capacity": capacity(self._service)}

    def check_health(self) -> None:
        """Raises if the server has ended, or its engine cannot be started again; Ray then replaces this replica."""
        if not self._thread.is_running:
            raise Unavailable("the server of this replica has ended.")
        if self._service.host.has_failed:
            raise self._service.host.error or Unavailable("the engine of this replica cannot be started again.")

    async def __del__(self) -> None:
        """Finishes running requests, for at most `drain_timeout_s`. Ray has already told the edges to send no more."""
        if not hasattr(self, "_thread") or not self._thread.is_running:
            return
        self._server.handle_exit(signal.SIGTERM, None)
        await self._thread.ended(self._service.config.drain_timeout_s + LAST_BYTES_S)
