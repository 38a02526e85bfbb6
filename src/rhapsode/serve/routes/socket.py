"""`WS /v1/audio/speech/stream`: text in and audio out over a WebSocket."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

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

    @routes.websocket("/v1/audio/speech/stream")
    async def stream(socket: WebSocket) -> None:
        await run_socket(service, socket, lambda session_id: Session(service, socket, session_id).run())

    return routes


async def run_socket(service: Service, socket: WebSocket, run: Callable[[str], Awaitable[None]]) -> None:
    """Accepts a WebSocket unless too many are open, and calls `run` with the id of its new session."""
    if refusal := _refusal(service):
        await socket.send_denial_response(error_response(refusal))
        return
    session_id = new_id().replace("req", "ws")
    # A browser closes the connection if none of the subprotocols it offered is accepted.
    offered = [name for name in socket.scope.get("subprotocols", ()) if not name.startswith(SUBPROTOCOL)]
    service.sockets += 1
    service.metrics.sockets.inc()
    log.info("socket opened", extra={"fields": {"request_id": session_id}})
    try:
        await socket.accept(offered[0] if offered else None, [(b"x-request-id", session_id.encode())])
        await run(session_id)
    finally:
        service.sockets -= 1
        service.metrics.sockets.dec()
        log.info("socket closed", extra={"fields": {"request_id": session_id}})


def _refusal(service: Service) -> RhapsodeError | None:
    if service.host.draining:
        return Unavailable("the server is shutting down.")
    most = service.config.socket.most
    return Busy(f"{most} sockets are open already.") if service.sockets >= most else None
