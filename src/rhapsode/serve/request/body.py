"""Reads the body of a request."""

from __future__ import annotations

from io import BytesIO

from starlette.types import Receive, Scope

from rhapsode.errors import Aborted
from rhapsode.serve.request.header import header
from rhapsode.serve.response.errors import UnsupportedMediaType


def media_type(scope: Scope) -> str:
    return header(scope, b"content-type").partition(";")[0].strip().lower()


def is_json(kind: str) -> bool:
    """Returns whether a media type is that of JSON, such as `application/x+json`."""
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


async def json_body(scope: Scope, receive: Receive) -> bytes:
    """Returns the bytes of a JSON body. Its media type is required, since pages of other origins cannot send JSON as
    such without a CORS preflight."""
    if not is_json(media_type(scope)):
        raise UnsupportedMediaType("send JSON, with 'Content-Type: application/json'.")
    body = BytesIO()  # joining the pieces of 40 MB at the end would block the event loop
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Aborted("the client disconnected before its request was complete.")
        body.write(message.get("body", b""))
        if not message.get("more_body", False):
            return body.getvalue()
