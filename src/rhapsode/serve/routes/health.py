"""`/health`: alive and warmed up; `/ready`: accepts new work; `/metrics`.

An engine's process that died or hung is started again by the server itself: meanwhile `/ready` is 503, so that a load
balancer looks elsewhere, and `/health` stays 200, so that nobody starts the whole server again as well.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from rhapsode.serve.request.names import served_id
from rhapsode.serve.service import Service


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["operations"])
    host = service.host

    def state() -> str:
        if host.draining:
            return "draining"
        if not host.warm:
            return "failed" if host.error else "loading"
        if host.is_lost:
            return "failed" if host.has_failed else "restarting"
        return "ready" if host.loaded else "idle"

    def answer(good: bool) -> JSONResponse:
        body: dict[str, Any] = {"status": state(), "model": served_id(service.deployment)}
        if host.error and (host.is_lost or not host.warm):
            body["error"] = host.error.message
        return JSONResponse(body, 200 if good else 503, {"Cache-Control": "no-store"})

    def unless(trouble: str) -> dict[int | str, dict[str, Any]]:
        return {503: {"description": trouble}}

    @routes.get("/health", summary="Alive, and warmed up", responses=unless("Not warmed up yet, or failed"))
    async def health() -> Response:
        return answer(host.warm and not host.has_failed)

    @routes.get("/ready", summary="Takes new work", responses=unless("Starting, or draining"))
    async def ready() -> Response:
        return answer(host.warm and not host.draining and not host.is_lost)

    @routes.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return routes
