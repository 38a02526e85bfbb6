"""Reads the body of a request."""

from __future__ import annotations

from io import BytesIO

from starlette.types import Receive, Scope

from rhapsode.errors import Aborted
from rhapsode.serve.request.header import header
from rhapsode.serve.response.errors import UnsupportedMediaType


def media_type(scope: Scope) -> str:
    return header(scope, b"content-type").partition(";")[0].strip().lower()


async def json_body(scope: Scope, receive: Receive) -> bytes:
    """Returns the bytes of a JSON body. Its media type is required, since pages of other origins cannot send JSON as
    such without a CORS preflight."""
    kind = media_type(scope)
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise UnsupportedMediaType("send JSON, with 'Content-Type: application/json'.")
    body = BytesIO()  # joining the pieces of 40 MB at the end would block the event loop
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Aborted("the client disconnected before its request was complete.")
        body.write(message.get("body", b""))
        if not message.get("more_body", False):
            return body.getvalue()
