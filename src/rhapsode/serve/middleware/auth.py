"""API keys: one or several, compared in constant time, never logged."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from rhapsode.serve.response.errors import NotAuthenticated, error_response

GUARDED = "/v1/"
SUBPROTOCOL = "openai-insecure-api-key."  # how browsers, which cannot set headers, bring a key to a WebSocket


class ApiKeys:
    """Answers 401 before anything is read of a request that brings no key we know."""

    def __init__(self, app: ASGIApp, keys: Sequence[SecretStr]) -> None:
        self._app = app
        self._keys = [key.get_secret_value().encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or not self._guards(scope) or self._is_known(given_key(scope)):
            await self._app(scope, receive, send)
            return
        error = NotAuthenticated("the API key is missing or wrong: send it as 'Authorization: Bearer KEY'.")
        await error_response(error)(scope, receive, send)

    def _guards(self, scope: Scope) -> bool:
        if scope["type"] == "http" and scope["method"] == "OPTIONS":  # a browser asks first, and may not send a key
            return False
        return bool(scope["path"].startswith(GUARDED))

    def _is_known(self, given: bytes | None) -> bool:
        known = False
        for key in self._keys:  # all of them, so that the time tells nothing
            known |= hmac.compare_digest(key, given or b"")
        return known


def given_key(scope: Scope) -> bytes | None:
    """The key a request brings, from wherever clients put it."""
    headers = Headers(scope=scope)
    kind, _, key = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and key.strip():
        return key.strip().encode("latin-1", "replace")
    if found := headers.get("x-api-key"):
        return found.encode("latin-1", "replace")
    for protocol in scope.get("subprotocols", ()) if scope["type"] == "websocket" else ():
        if protocol.startswith(SUBPROTOCOL):
            return str(protocol.removeprefix(SUBPROTOCOL)).encode()
    return None
