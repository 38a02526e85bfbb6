"""Reads the body of a request."""

from __future__ import annotations

from fastapi import Request
from starlette.requests import ClientDisconnect

from rhapsode.errors import Aborted
from rhapsode.serve.request.header import header
from rhapsode.serve.response.errors import UnsupportedMediaType


def media_type(request: Request) -> str:
    return header(request.scope, b"content-type").partition(";")[0].strip().lower()


async def json_body(request: Request) -> bytes:
    """Returns the bytes of a JSON body. Its media type is required: pages of other origins cannot set it unasked."""
    kind = media_type(request)
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise UnsupportedMediaType("send JSON, with 'Content-Type: application/json'.")
    try:
        return await request.body()
    except ClientDisconnect:
        raise Aborted("the client disconnected before its request was complete.") from None
