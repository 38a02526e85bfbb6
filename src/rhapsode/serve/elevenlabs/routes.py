"""ElevenLabs' routes for speech: one utterance, dialogues, and WebSockets for text that is still being written."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, WebSocket
from fastapi.responses import Response

from rhapsode.serve.elevenlabs.body import ElevenLabsBody, read_speech
from rhapsode.serve.elevenlabs.dialogue import DialogueBody, read_dialogue
from rhapsode.serve.elevenlabs.error_schema import ERRORS
from rhapsode.serve.elevenlabs.formats import DEFAULT_FORMAT, OUTPUT_FORMATS, parse_format
from rhapsode.serve.elevenlabs.session import ElevenLabsSession
from rhapsode.serve.elevenlabs.timestamps import DialogueTimestampResponse, TimestampResponse
from rhapsode.serve.request.body import json_body
from rhapsode.serve.request.openapi import request_body
from rhapsode.serve.response.audio import SpeechResponse
from rhapsode.serve.routes.socket import run_socket
from rhapsode.serve.service import Service

OutputFormat = Annotated[
    str, Query(description=f"One of {', '.join(OUTPUT_FORMATS)}.", json_schema_extra={"default": DEFAULT_FORMAT})
]
SPEECH, DIALOGUE = "/v1/text-to-speech/{voice_id}", "/v1/text-to-dialogue"
_IGNORED = ("enable_logging", "optimize_streaming_latency")


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["ElevenLabs"])
    _add_speech(routes, service)
    _add_dialogue(routes, service)
    _add_sockets(routes, service)
    return routes


def _add_speech(routes: APIRouter, service: Service) -> None:
    about = request_body(ElevenLabsBody)

    async def answer(
        request: Request, voice_id: str, output_format: str, kind: type[SpeechResponse], **delivery: Any
    ) -> Response:
        audio, ignored = parse_format(output_format), _ignored(request)
        read = partial(read_speech, service, voice_id=voice_id, audio=audio, ignored=ignored, delivery=delivery)
        return kind(service, await json_body(request.scope, request.receive), request.state.request_id, read)

    @routes.post(SPEECH, response_class=Response, responses=ERRORS, openapi_extra=about)
    async def convert(request: Request, voice_id: str, output_format: OutputFormat = DEFAULT_FORMAT) -> Response:
        """Speaks a text, and answers with the whole file."""
        return await answer(request, voice_id, output_format, SpeechResponse, stream=False)

    @routes.post(f"{SPEECH}/stream", response_class=Response, responses=ERRORS, openapi_extra=about)
    async def stream(request: Request, voice_id: str, output_format: OutputFormat = DEFAULT_FORMAT) -> Response:
        """Speaks a text, and streams the audio while it is made."""
        return await answer(request, voice_id, output_format, SpeechResponse, stream=True)

    @routes.post(f"{SPEECH}/with-timestamps", response_class=Response, responses=ERRORS, openapi_extra=about)
    async def with_timestamps(
        request: Request, voice_id: str, output_format: OutputFormat = DEFAULT_FORMAT
    ) -> Response:
        """Answers with the whole file and the time of each character. Words are measured; their characters share it."""
        return await answer(request, voice_id, output_format, TimestampResponse, stream=False, word_timestamps=True)

    @routes.post(f"{SPEECH}/stream/with-timestamps", response_class=Response, responses=ERRORS, openapi_extra=about)
    async def stream_with_timestamps(
        request: Request, voice_id: str, output_format: OutputFormat = DEFAULT_FORMAT
    ) -> Response:
        """Streams lines of JSON, each with audio and the times of the characters that are known by then."""
        return await answer(
            request, voice_id, output_format, TimestampResponse, stream_format="sse", word_timestamps=True
        )


def _add_dialogue(routes: APIRouter, service: Service) -> None:
    about = request_body(DialogueBody)

    async def answer(request: Request, output_format: str, **delivery: Any) -> Response:
        audio, ignored, speakers = parse_format(output_format), _ignored(request), list[str]()
        read = partial(read_dialogue, service, audio=audio, ignored=ignored, delivery=delivery, speakers=speakers)
        data, request_id = await json_body(request.scope, request.receive), request.state.request_id
        if "word_timestamps" in delivery:
            return DialogueTimestampResponse(service, data, request_id, read, speakers)
        return SpeechResponse(service, data, request_id, read)

    @routes.post(DIALOGUE, response_class=Response, responses=ERRORS, openapi_extra=about)
    async def dialogue(request: Request, output_format: OutputFormat = DEFAULT_FORMAT) -> Response:
        """Speaks a dialogue of several voices, and answers with the whole file."""
        return await answer(request, output_format, stream=False)

    @routes.post(f"{DIALOGUE}/stream", response_class=Response, responses=ERRORS, openapi_extra=about)
    async def stream_dialogue(request: Request, output_format: OutputFormat = DEFAULT_FORMAT) -> Response:
        """Speaks a dialogue of several voices, and streams the audio while it is made."""
        return await answer(request, output_format, stream=True)

    @routes.post(f"{DIALOGUE}/with-timestamps", response_class=Response, responses=ERRORS, openapi_extra=about)
    async def timed_dialogue(request: Request, output_format: OutputFormat = DEFAULT_FORMAT) -> Response:
        """Answers with the whole file, the time of each character, and who speaks when."""
        return await answer(request, output_format, stream=False, word_timestamps=True)

    @routes.post(f"{DIALOGUE}/stream/with-timestamps", response_class=Response, responses=ERRORS, openapi_extra=about)
    async def stream_timed_dialogue(request: Request, output_format: OutputFormat = DEFAULT_FORMAT) -> Response:
        """Streams lines of JSON, each with audio, the times of characters that are known by then, and who speaks."""
        return await answer(request, output_format, stream_format="sse", word_timestamps=True)


def _ignored(request: Request) -> tuple[str, ...]:
    """Returns the parameters of a request that have no effect here."""
    return tuple(name for name in _IGNORED if name in request.query_params)


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
