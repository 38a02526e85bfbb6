"""`GET /v1/audio/lexicon`: the words that the server respells."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from rhapsode.serve.request.openapi import responses
from rhapsode.serve.service import Service


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["models"])

    @routes.get("/v1/audio/lexicon", summary="Respelt words", responses=responses(401))
    async def lexicon() -> dict[str, Any]:
        """The words of the deployment's lexicon, in the order of its file. A request may bring more of its own."""
        data = [{"word": word, "spoken": spoken} for word, spoken in service.lexicon.entries.items()]
        return {"object": "list", "data": data}

    return routes
