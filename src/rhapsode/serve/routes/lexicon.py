"""`GET /v1/audio/lexicon`: the words that the server respells."""

from __future__ import annotations

import asyncio
import json
from functools import cache

from fastapi import APIRouter, Response

from rhapsode.serve.request.openapi import responses
from rhapsode.serve.service import Service


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["models"])

    @cache
    def body() -> bytes:
        data = [{"word": word, "spoken": spoken} for word, spoken in service.lexicon.entries.items()]
        return json.dumps({"object": "list", "data": data}, ensure_ascii=False).encode()

    @routes.get("/v1/audio/lexicon", summary="Respelt words", responses=responses(401))
    async def lexicon() -> Response:
        """The words of the deployment's lexicon, in the order of its file. A request may bring more of its own."""
        return Response(await asyncio.to_thread(body), media_type="application/json")

    return routes
