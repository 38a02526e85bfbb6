"""`/health`: alive and warmed up; `/ready`: accepts new work; `/metrics`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from rhapsode.serve.service import Service


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["operations"])
    host = service.host

    def state() -> str:
        if host.draining:
            return "draining"
        if not host.warm:
            return "failed" if host.error else "loading"
        return "ready" if host.readings().loaded else "idle"

    def answer(good: bool) -> JSONResponse:
        body: dict[str, Any] = {"status": state(), "model": service.info.family}
        if host.error and not host.warm:
            body["error"] = host.error.message
        return JSONResponse(body, 200 if good else 503, {"Cache-Control": "no-store"})

    @routes.get("/health", summary="Alive, and warmed up", responses={503: {"description": "Not warmed up yet"}})
    async def health() -> Response:
        return answer(host.warm)

    @routes.get("/ready", summary="Takes new work", responses={503: {"description": "Loading, or draining"}})
    async def ready() -> Response:
        return answer(host.warm and not host.draining)

    @routes.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return routes
