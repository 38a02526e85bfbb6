"""`WS /v1/audio/speech/stream`."""

from __future__ import annotations

import logging

from fastapi import APIRouter, WebSocket

from rhapsode.errors import Busy, RhapsodeError, Unavailable
from rhapsode.serve.middleware.auth import SUBPROTOCOL
from rhapsode.serve.observe.logs import new_id
from rhapsode.serve.response.errors import error_response
from rhapsode.serve.service import Service
from rhapsode.serve.socket.session import Session

log = logging.getLogger("rhapsode.serve")


def router(service: Service) -> APIRouter:
    routes = APIRouter()
    metrics = service.metrics

    @routes.websocket("/v1/audio/speech/stream")
    async def stream(socket: WebSocket) -> None:
        if refusal := _refusal(service):
            await socket.send_denial_response(error_response(refusal))
            return
        session_id = new_id().replace("req", "ws")
        # A browser closes the connection if none of the subprotocols it offered is accepted.
        offered = [name for name in socket.scope.get("subprotocols", ()) if not name.startswith(SUBPROTOCOL)]
        service.sockets += 1
        metrics.sockets.inc()
        log.info("socket opened", extra={"fields": {"request_id": session_id}})
        try:
            await socket.accept(offered[0] if offered else None, [(b"x-request-id", session_id.encode())])
            await Session(service, socket, session_id).run()
        finally:
            service.sockets -= 1
            metrics.sockets.dec()
            log.info("socket closed", extra={"fields": {"request_id": session_id}})

    return routes


def _refusal(service: Service) -> RhapsodeError | None:
    if service.host.draining:
        return Unavailable("the server is shutting down.")
    most = service.config.socket.most
    return Busy(f"{most} sockets are open already.") if service.sockets >= most else None
