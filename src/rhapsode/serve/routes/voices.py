"""`/v1/audio/voices`: list, upload and delete voices."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from email.message import Message
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field
from starlette.datastructures import FormData, UploadFile
from starlette.requests import ClientDisconnect

from rhapsode.errors import Aborted, BadAudio, InvalidRequest
from rhapsode.models.abilities import unable
from rhapsode.serve.middleware.auth import is_keyless
from rhapsode.serve.request.body import json_body, media_type
from rhapsode.serve.request.lenient import as_header
from rhapsode.serve.request.names import DEFAULT_VOICE
from rhapsode.serve.request.openapi import responses
from rhapsode.serve.request.schemas import Embedding, Name, Sentence, Source, Strict, read
from rhapsode.serve.request.shape import check_shape
from rhapsode.serve.response.errors import NotFound, UnsupportedMediaType
from rhapsode.serve.service import Service
from rhapsode.serve.voice_list import known_voices, names_only, public_voice
from rhapsode.types import Clip, ModelInfo
from rhapsode.voices.fetch import parse_data_url
from rhapsode.voices.name import name_key
from rhapsode.voices.store import StoredVoice

_NAMED: dict[str, dict[str, Any]] = {
    "name": {"type": "string", "example": "Ada"},
    "consent": {"type": "string", "example": "recorded by the speaker, 2025-06-01"},
}
_DESCRIBED = {"speaker_description": {"type": "string", "description": "Who speaks, for those who choose a voice."}}
_SAMPLE_TEXT: dict[str, dict[str, Any]] = {"text": {"type": "string", "description": "What is said in the sample."}}


def _upload(info: ModelInfo) -> dict[str, Any]:
    """Returns the OpenAPI description of an upload, with only those fields that the checkpoint can use."""
    form, body = dict(_NAMED), dict(_NAMED)
    if info.takes_recordings:
        form |= {"audio_sample": {"type": "string", "format": "binary"}, **_SAMPLE_TEXT}
        body |= {"audio_sample": {"type": "string", "description": "A data: URL."}, **_SAMPLE_TEXT}
    if info.can.embedding:
        form |= {"speaker_embedding": {"type": "string", "description": "A JSON list of numbers."}}
        body |= {"speaker_embedding": {"type": "array", "items": {"type": "number"}}}
    form |= _DESCRIBED
    body |= _DESCRIBED
    content = {
        "multipart/form-data": {"schema": _object(form)},
        "application/json": {"schema": {**_object(body), "additionalProperties": False}},
    }
    return {"requestBody": {"required": True, "content": content}}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": ["name", "consent"], "properties": properties}


class VoiceBody(Strict):
    """A voice to store: a sample or an embedding, and the consent of its owner."""

    name: Name
    consent: Annotated[Sentence, Field(min_length=1)]
    audio_sample: Source | None = None
    text: Sentence | None = None
    ref_text: Sentence | None = None
    speaker_embedding: Embedding | None = None
    speaker_description: Sentence | None = None


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["voices"])

    @routes.get("/v1/audio/voices", summary="The voices there are", responses=responses(401))
    async def voices(request: Request) -> dict[str, Any]:
        """Returns all voices: presets, then uploaded ones, then aliases (OpenAI's names too) with their voices."""
        known = await known_voices(service)
        if is_keyless(request):
            known = names_only(known)
        return {"object": "list", "data": known, "voices": known}

    @routes.post(
        "/v1/audio/voices",
        summary="Upload a voice",
        status_code=201,
        responses=responses(400, 401, 409, 413, 415, 503),
        openapi_extra=_upload(service.info),
        include_in_schema=service.info.takes_uploads,
    )
    async def upload(request: Request, answer: Response, replace: bool = False) -> dict[str, Any]:
        """Store a voice under a name, from a sample (`audio_sample`) or an embedding (`speaker_embedding`).

        With `replace` it takes the place of an uploaded voice of the same name, and `replaced` says so.
        """
        data, sample = await _read(request)
        data, ignored = await service.tolerate(VoiceBody, data)
        body = await read(VoiceBody, data)
        answer.headers.update(as_header(ignored))
        check_voice(body, has_sample=sample is not None, service=service)
        if sample is None and body.audio_sample is not None:
            sample = parse_data_url(body.audio_sample, service.config.max_upload_bytes)
        if sample is not None and len(sample) > service.config.max_upload_bytes:
            raise BadAudio(f"at most {service.config.max_upload_bytes} bytes are taken.", param="audio_sample")
        clip = None if sample is None else await service.references.clip(sample, "audio_sample")
        replaced = replace and await asyncio.to_thread(service.store.get, body.name) is not None
        stored = public_voice(await save_voice(service, body, clip, replace=replace))
        return stored | ({"replaced": True} if replaced else {})

    @routes.get(
        "/v1/audio/voices/{voice}/embedding", summary="A voice as numbers", responses=responses(400, 401, 404, 503)
    )
    async def embedding(voice: str) -> dict[str, Any]:
        """The speaker embedding of an uploaded voice, as `speaker_embedding` takes it: to keep, or to blend."""
        loaded = await asyncio.to_thread(service.store.load, voice)
        if loaded is None:
            raise NotFound("no voice of that id or name was uploaded.", param="voice")
        return {"object": "embedding", "voice": voice, "embedding": list(await service.host.embed(loaded))}

    @routes.delete("/v1/audio/voices/{voice}", summary="Delete a voice", responses=responses(401, 404, 503))
    async def delete(voice: str) -> dict[str, Any]:
        """An uploaded voice, by its id or its name. It is gone for good."""
        return {"id": await remove_voice(service, voice), "object": "voice", "deleted": True}

    return routes


def check_voice(body: VoiceBody, *, has_sample: bool, service: Service) -> None:
    """Raises if the name is taken, or if the served checkpoint cannot speak with this voice."""
    _check_name(body.name, (*service.info.presets, *service.intake.aliases.names))
    _check_usable(body, has_sample, service.info)


async def save_voice(service: Service, body: VoiceBody, clip: Clip | None, *, replace: bool = False) -> StoredVoice:
    """Stores a voice that `check_voice` has let pass."""
    return await asyncio.to_thread(
        service.store.add,
        body.name,
        clip=clip,
        embedding=body.speaker_embedding,
        text=body.text or body.ref_text,
        consent=body.consent,
        speaker_description=body.speaker_description,
        replace=replace,
    )


async def remove_voice(service: Service, voice: str) -> str:
    """Deletes an uploaded voice for good, by its id or its name; returns its id."""
    stored = await asyncio.to_thread(service.store.get, voice)
    if stored is None or not await asyncio.to_thread(service.store.delete, stored.id):
        raise NotFound("no voice of that id or name was uploaded.", param="voice")
    return stored.id


def _check_name(name: str, presets: Sequence[str]) -> None:
    """Raises if the name is that of a preset or an alias, in upper or lower case."""
    if name_key(name) in {name_key(taken) for taken in (DEFAULT_VOICE, *presets)}:
        raise InvalidRequest(f"'{name}' is a voice of this model: choose another name.", param="name")


def _check_usable(body: VoiceBody, has_sample: bool, info: ModelInfo) -> None:
    """Raises if the served checkpoint cannot speak with this voice."""
    numbers, size = body.speaker_embedding, info.embedding_size
    if numbers is not None and not info.can.embedding:
        raise unable(info, "embedding", "speaker_embedding")
    if numbers is not None and size is not None and len(numbers) != size:
        right = f"a speaker embedding of {info.title} has {size} finite numbers"
        raise InvalidRequest(f"{right}; got {len(numbers)} numbers.", param="speaker_embedding")
    if (has_sample or body.audio_sample is not None) and not info.takes_recordings:
        raise unable(info, "clone", "audio_sample")


async def _read(request: Request) -> tuple[bytes, bytes | None]:
    """Returns the fields of an upload as JSON, from a form or from JSON, and the file of a form."""
    if media_type(request.scope) != "multipart/form-data":
        if media_type(request.scope) != "application/json":
            raise UnsupportedMediaType("send a form ('multipart/form-data') or JSON.")
        return await json_body(request.scope, request.receive), None
    async with form_of(request, 1) as form:
        return await _read_form(form.multi_items())


@asynccontextmanager
async def form_of(request: Request, most_files: int) -> AsyncIterator[FormData]:
    """Yields the form of a request, whose files are deleted in the end."""
    if media_type(request.scope) != "multipart/form-data":
        raise UnsupportedMediaType("send a form ('multipart/form-data').")
    charset = Message()
    charset["content-type"] = request.headers["content-type"]
    if str(charset.get_param("charset", "utf-8")).lower() not in ("utf-8", "utf8", "us-ascii"):
        raise InvalidRequest("a form must be in UTF-8: send no other charset.")
    try:
        async with request.form(max_files=most_files, max_fields=8, max_part_size=2**20) as form:
            yield form
    except ClientDisconnect:
        raise Aborted("the client disconnected before its request was complete.") from None


async def _read_form(items: list[tuple[str, Any]]) -> tuple[bytes, bytes | None]:
    fields: dict[str, Any] = {}
    sample: bytes | None = None
    for name, value in items:
        if name in fields or (name == "audio_sample" and sample is not None):
            raise InvalidRequest(f"the field '{name}' is given twice.", param=name)
        if isinstance(value, UploadFile):
            if name != "audio_sample":
                raise InvalidRequest("the file belongs into 'audio_sample'.", param=name)
            sample = await value.read()
        elif name == "speaker_embedding":
            fields[name] = await asyncio.to_thread(_numbers, value)
        else:
            fields[name] = value
    return json.dumps(fields).encode(), sample


def _numbers(text: str) -> Any:
    check_shape(text.encode())
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidRequest("'speaker_embedding' must be a JSON list of numbers.", param="speaker_embedding") from None
