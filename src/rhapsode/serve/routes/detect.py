"""`POST /v1/audio/detect`: whether audio has a watermark, which deployment made it, and when."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect

from rhapsode.errors import Aborted, BadAudio, InvalidRequest
from rhapsode.serve.request.body import media_type
from rhapsode.serve.request.openapi import responses
from rhapsode.serve.response.errors import UnsupportedMediaType
from rhapsode.serve.service import Service

_AUDIO = {"schema": {"type": "string", "format": "binary"}}
_FORM = {"type": "object", "required": ["file"], "properties": {"file": {"type": "string", "format": "binary"}}}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"multipart/form-data": {"schema": _FORM}, "application/octet-stream": _AUDIO},
    }
}


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["marking"])

    @routes.post(
        "/v1/audio/detect",
        summary="Detect a watermark",
        responses=responses(400, 401, 413, 415, 429),
        openapi_extra=_BODY,
    )
    async def detect(request: Request) -> dict[str, Any]:
        """Tells whether audio has the watermark of a Rhapsode server, which deployment made it, and in which hour.

        Send the file as `file` of a form, or as the body itself. Five seconds of speech are enough.
        """
        try:
            data = await _file(request)
        except ClientDisconnect:
            raise Aborted("the client disconnected before its request was complete.") from None
        most = service.config.max_upload_bytes
        if len(data) > most:
            raise BadAudio(f"at most {most} bytes are taken.", param="file")
        clip = await service.references.clip(data, "file")
        del data
        request.scope["state"].get("release_body", lambda: None)()  # others may wait for the same search
        return await service.detection.detect(clip)

    return routes


async def _file(request: Request) -> bytes:
    kind = media_type(request.scope)
    if kind.startswith("audio/") or kind == "application/octet-stream":
        return b"".join([piece async for piece in request.stream()])  # the request would keep what `body` returns
    if kind != "multipart/form-data":
        raise UnsupportedMediaType("send a form with a 'file', or the audio itself as 'application/octet-stream'.")
    async with request.form(max_files=1, max_fields=1) as form:
        file = form.get("file")
        if len(form) != 1 or not isinstance(file, UploadFile):
            raise InvalidRequest("the form must have one field, 'file', with the audio.", param="file")
        return await file.read()
