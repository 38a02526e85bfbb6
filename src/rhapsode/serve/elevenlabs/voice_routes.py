"""ElevenLabs' routes for voices and for the account."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from rhapsode.serve.elevenlabs.account import describe_subscription, describe_user
from rhapsode.serve.elevenlabs.cloning import clone
from rhapsode.serve.elevenlabs.error_schema import ERRORS
from rhapsode.serve.elevenlabs.listing import find_voice, list_voices, page, search
from rhapsode.serve.routes.voices import remove_voice
from rhapsode.serve.service import Service

_FORM = {
    "type": "object",
    "required": ["name", "files"],
    "properties": {
        "name": {"type": "string"},
        "files": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "labels": {"type": "string", "description": "JSON. Its `consent` says who agreed, and when."},
        "consent": {"type": "string", "description": "The same as a field of its own."},
    },
}
_CLONING = {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}}}


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["ElevenLabs"])

    @routes.get("/v1/voices", responses=ERRORS)
    async def voices() -> dict[str, Any]:
        """Lists presets, uploaded voices, and the deployment's aliases."""
        return {"voices": await list_voices(service)}

    @routes.get("/v1/voices/{voice_id}", responses=ERRORS)
    async def voice(voice_id: str) -> dict[str, Any]:
        """Describes one voice."""
        return await find_voice(service, voice_id)

    @routes.get("/v2/voices", responses=ERRORS)
    async def search_voices(
        words: Annotated[str, Query(alias="search", max_length=256)] = "",
        category: Annotated[str | None, Query(max_length=64)] = None,
        voice_ids: Annotated[list[str] | None, Query(max_length=100)] = None,
        page_size: Annotated[int, Query(ge=1, le=100)] = 10,
        next_page_token: Annotated[str | None, Query(max_length=16)] = None,
    ) -> dict[str, Any]:
        """Searches for voices by name, category and ids, page by page."""
        found = search(await list_voices(service), words, category, voice_ids or ())
        return page(found, page_size, next_page_token)

    @routes.post(
        "/v1/voices/add",
        responses=ERRORS,
        openapi_extra=_CLONING,
        include_in_schema=service.info.takes_recordings,
    )
    async def add(request: Request) -> dict[str, Any]:
        """Stores a voice from recordings of its owner, who has agreed to it."""
        return {"voice_id": (await clone(service, request)).id, "requires_verification": False}

    @routes.delete("/v1/voices/{voice_id}", responses=ERRORS)
    async def delete(voice_id: str) -> dict[str, Any]:
        """Deletes an uploaded voice for good."""
        await remove_voice(service, voice_id)
        return {"status": "ok"}

    @routes.get("/v1/user", responses=ERRORS)
    async def user() -> dict[str, Any]:
        """Describes the account: there are none here, so all keys have the same."""
        return await describe_user(service)

    @routes.get("/v1/user/subscription", responses=ERRORS)
    async def subscription() -> dict[str, Any]:
        """Describes the subscription: nothing is limited but the number of uploaded voices."""
        return await describe_subscription(service)

    return routes
