"""The paths of an edge: those of one server. All others are answered by the edge alone, so that they load no model."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Set

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from rhapsode.serve.response.errors import MethodNotAllowed, NotFound, error_response

BATCH = "/v1/audio/speech/batch"
SOCKET = "/v1/audio/speech/stream"
ELEVENLABS_SOCKET = re.compile(r"/v1/text-to-speech/(?P<voice>[^/]+)/(multi-)?stream-input")
ELEVENLABS_SPEECH = (
    "/v1/text-to-speech/{voice}",
    "/v1/text-to-speech/{voice}/stream",
    "/v1/text-to-speech/{voice}/with-timestamps",
    "/v1/text-to-speech/{voice}/stream/with-timestamps",
    "/v1/text-to-dialogue",
    "/v1/text-to-dialogue/stream",
    "/v1/text-to-dialogue/with-timestamps",
    "/v1/text-to-dialogue/stream/with-timestamps",
)
SPEECH = ("/v1/audio/speech", BATCH, *ELEVENLABS_SPEECH)
VOICES, ELEVENLABS_VOICES = "/v1/audio/voices", "/v1/voices"
FORWARDED = {
    VOICES: {"POST"},
    f"{VOICES}/{{voice}}": {"DELETE"},
    f"{VOICES}/{{voice}}/embedding": {"GET"},
    "/v1/audio/detect": {"POST"},
    "/v1/audio/lexicon": {"GET"},
    f"{ELEVENLABS_VOICES}/add": {"POST"},
    f"{ELEVENLABS_VOICES}/{{voice}}": {"GET", "DELETE"},
    "/v2/voices": {"GET"},
    "/v1/user": {"GET"},
    "/v1/user/subscription": {"GET"},
}
"""Paths, with their methods, that any replica of a model can answer."""
PAGE_METHODS = frozenset({"GET", "HEAD"})

Endpoint = Callable[[Request], Awaitable[Response]]


def route(path: str, endpoint: Endpoint, methods: Set[str] = frozenset({"GET"})) -> Route:
    """Returns a route for these methods alone: beside GET, Starlette would add HEAD."""
    made = Route(path, endpoint)
    made.methods = set(methods)
    return made


def chosen(routes: Iterable[Route], scope: Scope) -> Endpoint:
    """Returns the endpoint of a request, and notes its route in the scope; otherwise one that answers 404 or 405."""
    allowed: set[str] = set()
    for one in routes:
        match, found = one.matches(scope)
        if match is Match.FULL:
            scope.update(found)
            scope["route"] = one
            endpoint: Endpoint = one.endpoint
            return endpoint
        if match is Match.PARTIAL:
            allowed |= one.methods or set()

    async def refuse(request: Request) -> Response:
        if not allowed:
            raise NotFound(f"there is nothing at {scope['path'][:64]}.")
        response = error_response(MethodNotAllowed(f"{scope['method']} is not for this path."))
        response.headers["Allow"] = ", ".join(sorted(allowed))
        return response

    return refuse
