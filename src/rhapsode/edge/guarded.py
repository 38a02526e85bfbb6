"""The edge behind the checks of a single server: keys, origins, limits."""

from __future__ import annotations

from fastapi.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from rhapsode.config.served import ServedModels
from rhapsode.edge.edge import Edge
from rhapsode.serve.app import EXPOSED_HEADERS
from rhapsode.serve.budget import Budget
from rhapsode.serve.client import Clients
from rhapsode.serve.dialects.middleware import Dialects, Translation
from rhapsode.serve.middleware.auth import ApiKeys
from rhapsode.serve.middleware.limits import BodyLimit
from rhapsode.serve.middleware.origins import Origins
from rhapsode.serve.middleware.traced import Traced
from rhapsode.serve.observe.logs import RequestLog


def guarded(edge: Edge, config: ServedModels, uploads: Budget) -> ASGIApp:
    """Returns the edge behind the same checks, in the same order, as the application of one server."""
    server = config.server
    app: ASGIApp = Translation(edge, edge.voices)
    app = BodyLimit(app, server, takes_references=True, uploads=uploads)
    app = Clients(app, server.trusted_proxies)
    if server.api_keys:
        app = ApiKeys(app, server.api_keys, server.public_lists)
    if server.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=server.cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=EXPOSED_HEADERS,
        )
    app = RequestLog(Dialects(Origins(app, server), server), edge.metrics)
    return app if edge.traces is None else Traced(app, edge.traces)
