"""`GET /v1/models`: the served model, its abilities and its deployment."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request

from rhapsode.errors import UnknownModel
from rhapsode.serve.description import entry
from rhapsode.serve.elevenlabs.errors import is_elevenlabs
from rhapsode.serve.elevenlabs.listing import list_models
from rhapsode.serve.middleware.auth import is_keyless
from rhapsode.serve.request.names import OPENAI_MODELS, check_model, served_id
from rhapsode.serve.request.openapi import responses
from rhapsode.serve.service import Service


def describe(service: Service, name: str, created: int) -> dict[str, Any]:
    """Returns the description of the served model, under this name."""
    return {**entry(name, created), "status": service.host.status, **service.described()}


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["models"])
    created = int(time.time())
    names = [*OPENAI_MODELS, *service.config.model_aliases]

    def listed() -> list[dict[str, Any]]:
        main = describe(service, served_id(service.deployment), created)
        return [main, *(entry(name, created) for name in names)]

    @routes.get("/v1/models", summary="List models", response_model=None, responses=responses(401))
    async def models(request: Request) -> dict[str, Any] | list[dict[str, Any]]:
        """Lists the served model with its voices, options and limits, and its aliases, among them OpenAI's names.

        A client that sends `xi-api-key` gets ElevenLabs' list instead.
        """
        if is_elevenlabs(request.scope):
            return list_models(service)
        return {"object": "list", "data": listed()}

    @routes.get("/v1/audio/models", summary="List models of audio", responses=responses(401))
    async def audio_models(request: Request) -> dict[str, Any]:
        """Lists the same models for clients that look for them here; without a key, their ids alone."""
        found = listed()
        if is_keyless(request):
            found = [{"id": model["id"], "object": "model"} for model in found]
        return {"object": "list", "data": found, "models": found}

    @routes.get("/v1/models/{name:path}", summary="Describe a model", responses=responses(401, 404))
    async def model(name: str) -> dict[str, Any]:
        """Describes the served model, under its own name or under one of OpenAI's."""
        if not name:
            raise UnknownModel("the path has no model name: /v1/models lists the names.", param="model")
        check_model(name, service.deployment, service.info)
        return describe(service, name, created)

    return routes
