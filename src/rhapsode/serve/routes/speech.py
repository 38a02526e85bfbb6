"""`POST /v1/audio/speech`: one utterance, as a whole file, a stream of bytes, or server-sent events."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from rhapsode.audio.formats import FORMATS
from rhapsode.serve.request.body import json_body
from rhapsode.serve.request.openapi import responses
from rhapsode.serve.response.audio import SpeechResponse
from rhapsode.serve.service import Service

_AUDIO = {f.media_type: {"schema": {"type": "string", "format": "binary"}} for f in FORMATS.values()}
_EVENTS = {"text/event-stream": {"schema": {"type": "string"}}}
_RESPONSES = {
    200: {"description": "The audio, from the first frame on.", "content": _AUDIO | _EVENTS},
    **responses(400, 401, 404, 413, 415, 429, 503, 504),
}


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["speech"])

    @routes.post(
        "/v1/audio/speech",
        summary="Speak",
        response_class=Response,
        responses=_RESPONSES,
        openapi_extra=service.described_body(service.schemas.speech),
    )
    async def speak(request: Request) -> Response:
        """One utterance. It streams as it is spoken, in every format, unless `stream` is false.

        Headers are sent with the first audio, so that an early failure has a status of its own. A stream that fails
        midway ends without its last chunk, or, with `stream_format: sse`, with an `error` event; either way
        `GET /v1/audio/speech/{X-Request-Id}` tells why.
        """
        return SpeechResponse(service, await json_body(request.scope, request.receive), request.state.request_id)

    return routes
