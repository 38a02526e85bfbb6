"""Checks API keys, in constant time. Keys are never logged."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from rhapsode.config.server import key_id
from rhapsode.serve.observe.caller import caller
from rhapsode.serve.response.errors import NotAuthenticated, error_response

GUARDED = ("/v1/", "/v2/")
PUBLIC = ("/v1/audio/voices", "/v1/audio/models")
"""Lists that a deployment may show without a key. Without a key they contain names only."""
SUBPROTOCOL = "openai-insecure-api-key."  # browsers cannot set headers of a WebSocket, so they send the key here


class ApiKeys:
    """Answers 401 to a request without a valid key, before its body is read."""

    def __init__(self, app: ASGIApp, keys: Sequence[SecretStr], public_lists: bool = False) -> None:
        self._app = app
        self._public = PUBLIC if public_lists else ()
        self._keys = [key.get_secret_value().encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = None if scope["type"] == "lifespan" else given_key(scope)
        known = key is not None and self._is_known(key)
        if scope["type"] == "lifespan" or not self._guards(scope) or known:
            caller.set(key_id(key) if known and key else None)
            await self._app(scope, receive, send)
            return
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"] in self._public:
            scope.setdefault("state", {})["keyless"] = True
            await self._app(scope, receive, send)
            return
        right = "'Authorization: Bearer KEY' or 'xi-api-key: KEY'"
        error = NotAuthenticated(f"the API key is missing or wrong: send it as {right}.")
        await error_response(error)(scope, receive, send)

    def _guards(self, scope: Scope) -> bool:
        if scope["type"] == "http" and scope["method"] == "OPTIONS":  # a CORS preflight carries no key
            return False
        return bool(scope["path"].startswith(GUARDED))

    def _is_known(self, given: bytes) -> bool:
        known = False
        for key in self._keys:  # all of them, so that the time does not reveal which one matched
            known |= hmac.compare_digest(key, given)
        return known


def is_keyless(request: Request) -> bool:
    """Returns whether a public list is read without a valid key."""
    return bool(request.scope.get("state", {}).get("keyless"))


def given_key(scope: Scope) -> bytes | None:
    """Returns the key of a request, from any of the places where clients put it."""
    headers = Headers(scope=scope)
    kind, _, key = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and key.strip():
        return key.strip().encode("latin-1", "replace")
    if found := headers.get("x-api-key") or headers.get("xi-api-key"):
        return found.encode("latin-1", "replace")
    for protocol in scope.get("subprotocols", ()) if scope["type"] == "websocket" else ():
        if protocol.startswith(SUBPROTOCOL):
            return str(protocol.removeprefix(SUBPROTOCOL)).encode()
    return None
