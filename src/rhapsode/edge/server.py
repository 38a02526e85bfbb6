"""The HTTP server of an edge."""

from __future__ import annotations

import uvicorn

from rhapsode.config.served import ServedModels
from rhapsode.edge import buffers
from rhapsode.edge.edge import Edge
from rhapsode.edge.guarded import guarded
from rhapsode.serve.connection import ConnectionConfig
from rhapsode.serve.middleware.limits import uploads_of
from rhapsode.serve.server import LAST_BYTES_S


class EdgeServer(uvicorn.Server):
    """uvicorn with the connection limits of a single server. When it drains, it closes its listening socket, so that
    another edge on the same port gets new connections, and it ends with its last request."""

    def __init__(self, edge: Edge, config: ServedModels) -> None:
        self._edge = edge
        server = config.server
        uploads = uploads_of(server)
        super().__init__(
            ConnectionConfig(
                guarded(edge, config, uploads),
                server,
                uploads,
                buffer_bytes=buffers.BYTES,
                access_log=False,
                log_config=None,
                server_header=False,
                lifespan="on",
                ws_max_size=server.max_body_bytes,
                ws_per_message_deflate=False,
                timeout_graceful_shutdown=round(LAST_BYTES_S),
            )
        )

    async def on_tick(self, counter: int) -> bool:
        if self._edge.is_draining:
            for server in self.servers:
                server.close()
            self.should_exit |= not self._edge.in_flight
        return await super().on_tick(counter)
