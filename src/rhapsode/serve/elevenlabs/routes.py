"""ElevenLabs' routes: speech, voices, and WebSockets for text that is still being written."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, WebSocket
from fastapi.responses import Response
from pydantic import BaseModel

from rhapsode.serve.elevenlabs.body import ElevenLabsBody, read_speech
from rhapsode.serve.elevenlabs.formats import DEFAULT_FORMAT, OUTPUT_FORMATS, parse_format
from rhapsode.serve.elevenlabs.listing import find_voice, list_voices, page, search
from rhapsode.serve.elevenlabs.session import ElevenLabsSession
from rhapsode.serve.elevenlabs.timestamps import TimestampResponse
from rhapsode.serve.request.body import json_body
from rhapsode.serve.request.openapi import request_body
from rhapsode.serve.response.audio import SpeechResponse
from rhapsode.serve.routes.socket import run_socket
from rhapsode.serve.service import Service

OutputFormat = Annotated[
    str, Query(description=f"One of {', '.join(OUTPUT_FORMATS)}.", json_schema_extra={"default": DEFAULT_FORMAT})
]
SPEECH = "/v1/text-to-speech/{voice_id}"
_IGNORED = ("enable_logging", "optimize_streaming_latency")


class ElevenLabsErrorDetail(BaseModel):
    status: str
    message: str


class ElevenLabsError(BaseModel):
    """The body of every error on ElevenLabs' routes."""

    detail: ElevenLabsErrorDetail


_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ElevenLabsError} for status in (400, 401, 404, 413, 415, 429, 503, 504)
}


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["ElevenLabs"])
    _add_speech(routes, service)
    _add_voices(routes, service)
    _add_sockets(routes, service)
    return routes


def _add_speech(routes: APIRouter, service: Service) -> None:
    about = request_body(ElevenLabsBody)

    async def answer(
        request: Request, voice_id: str, output_format: str, kind: type[SpeechResponse], **delivery: Any
    ) -> Response:
        ignored = tuple(name for name in _IGNORED if name in request.query_params)
        audio = parse_format(output_format)
        read = partial(read_speech, service, voice_id=voice_id, audio=audio, ignored=ignored, delivery=delivery)
        return kind(service, await json_body(request.scope, request.receive), request.state.request_id, read)

    @routes.post(SPEECH, response_class=Response, responses=_ERRORS, openapi_extra=about)
    async def convert(request: Request, voice_id: str, output_format: OutputFormat = DEFAULT_FORMAT) -> Response:
        """Speaks a text, and answers with the whole file."""
        return await answer(request, voice_id, output_format, SpeechResponse, stream=False)

    @routes.post(f"{SPEECH}/stream", response_class=Response, responses=_ERRORS, openapi_extra=about)
    async def stream(request: Request, voice_id: str, output_format: OutputFormat = DEFAULT_FORMAT) -> Response:
        """Speaks a text, and streams the audio while it is made."""
        return await answer(request, voice_id, output_format, SpeechResponse, stream=True)

    @routes.post(f"{SPEECH}/with-timestamps", response_class=Response, responses=_ERRORS, openapi_extra=about)
    async def with_timestamps(
        request: Request, voice_id: str, output_format: OutputFormat = DEFAULT_FORMAT
    ) -> Response:
        """Answers with the whole file and the time of each character. Words are measured; their characters share it."""
        return await answer(request, voice_id, output_format, TimestampResponse, stream=False, word_timestamps=True)

    @routes.post(f"{SPEECH}/stream/with-timestamps", response_class=Response, responses=_ERRORS, openapi_extra=about)
    async def stream_with_timestamps(
        request: Request, voice_id: str, output_format: OutputFormat = DEFAULT_FORMAT
    ) -> Response:
        """Streams lines of JSON, each with audio and the times of the characters that are known by then."""
        return await answer(
            request, voice_id, output_format, TimestampResponse, stream_format="sse", word_timestamps=True
        )


def _add_voices(routes: APIRouter, service: Service) -> None:
    @routes.get("/v1/voices", responses=_ERRORS)
    async def voices() -> dict[str, Any]:
        """Lists presets, uploaded voices, and the deployment's aliases."""
        return {"voices": await list_voices(service)}

    @routes.get("/v1/voices/{voice_id}", responses=_ERRORS)
    async def voice(voice_id: str) -> dict[str, Any]:
        """Describes one voice."""
        return await find_voice(service, voice_id)

    @routes.get("/v2/voices", responses=_ERRORS)
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


def _add_sockets(routes: APIRouter, service: Service) -> None:
    async def converse(socket: WebSocket, voice_id: str, *, several: bool) -> None:
        async def run(session_id: str) -> None:
            await ElevenLabsSession(service, socket, session_id, voice_id, several=several).run()

        await run_socket(service, socket, run)

    @routes.websocket(f"{SPEECH}/stream-input")
    async def stream_input(socket: WebSocket, voice_id: str) -> None:
        await converse(socket, voice_id, several=False)

    @routes.websocket(f"{SPEECH}/multi-stream-input")
    async def multi_stream_input(socket: WebSocket, voice_id: str) -> None:
        await converse(socket, voice_id, several=True)
