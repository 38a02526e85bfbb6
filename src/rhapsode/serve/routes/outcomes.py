"""`GET /v1/audio/speech/{request_id}`: how a request ended."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from rhapsode.serve.request.openapi import responses
from rhapsode.serve.response.errors import NotFound
from rhapsode.serve.service import Service


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["speech"])

    @routes.get("/v1/audio/speech/{request_id}", summary="How a request ended", responses=responses(401, 404))
    async def outcome(request_id: str) -> dict[str, Any]:
        """Of the last 1024 requests: running, finished, aborted or failed, with its timing and its error."""
        record = service.outcomes.get(request_id)
        if record is None:
            raise NotFound("no request of that id is known; only the last ones are kept.", param="request_id")
        return record.body()

    return routes
