"""`GET /v1/models`: the served model, its abilities and its deployment."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request

from rhapsode.audio.formats import FORMATS
from rhapsode.errors import UnknownModel
from rhapsode.models.option_schema import options_schema
from rhapsode.serve.elevenlabs.errors import is_elevenlabs
from rhapsode.serve.elevenlabs.listing import list_models
from rhapsode.serve.middleware.auth import is_keyless
from rhapsode.serve.request.names import OPENAI_MODELS, check_model, served_id
from rhapsode.serve.request.openapi import responses
from rhapsode.serve.service import Service
from rhapsode.text.markup import INPUT_TYPES
from rhapsode.text.normalise.language import LANGUAGES
from rhapsode.text.ssml import ELEMENTS

HIDDEN = ("api_keys", "key_dialects", "api_keys_file", "voices")
"""Settings of the server that clients do not see."""


def describe(service: Service, name: str, created: int) -> dict[str, Any]:
    """Returns the description of the served model, under this name."""
    info, options = service.info, options_schema(service.spec)["properties"]
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "rhapsode",
        "family": info.family,
        "variant": info.variant or None,
        "summary": info.summary,
        "sample_rate": info.sample_rate,
        "channels": info.channels,
        "frame_hz": info.frame_hz,
        "capabilities": list(info.can.names()),
        "references": info.can.references if info.takes_references else 0,
        "reference_needs": list(info.reference_needs),
        "voices": list(info.voices),
        "voices_to_download": list(info.to_download),
        "languages": list(info.languages),
        "text": {
            "input_types": list(INPUT_TYPES),
            "normalise": info.normalise,
            "phonemes": info.phonemes,
            "normalise_languages": list(LANGUAGES),
            "ssml": list(ELEMENTS),
            "lexicon_words": len(service.lexicon.entries),
            "word_timestamps": list(service.word_languages),
        },
        "formats": list(FORMATS),
        "default_voice": info.default_voice,
        "sampling": list(info.sampling),
        "options": {name: about for name, about in options.items() if name in info.options},
        "embedding_size": info.embedding_size,
        "deployment": service.deployment.model_dump(
            mode="json",
            exclude={
                "server": {**dict.fromkeys(HIDDEN, True), "cache": {"folder"}},
                "lexicon": True,
                "alignment": {"model"},
            },
        ),
    }


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["models"])
    created = int(time.time())
    names = [*OPENAI_MODELS, *service.config.model_aliases]

    def listed() -> list[dict[str, Any]]:
        main = describe(service, served_id(service.deployment), created)
        return [main, *({key: main[key] for key in ("object", "created", "owned_by")} | {"id": n} for n in names)]

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
