"""Errors as HTTP responses."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from rhapsode.errors import Busy, InvalidRequest, RhapsodeError, Unavailable, UnknownOption
from rhapsode.models.abilities import unknown_name
from rhapsode.serve.elevenlabs.errors import detail_of, is_elevenlabs, status_of

MAX_SHOWN_CHARS = 64
"""The longest part of a client's input that an error message repeats."""


class NotAuthenticated(InvalidRequest):
    """The API key is missing or wrong."""

    status, code = 401, "invalid_api_key"


class NotFound(InvalidRequest):
    status, code = 404, "not_found"


class MethodNotAllowed(InvalidRequest):
    status, code = 405, "method_not_allowed"


class BodyTooLarge(InvalidRequest):
    status, code = 413, "body_too_large"


class UnsupportedMediaType(InvalidRequest):
    status, code = 415, "unsupported_media_type"


class InternalError(RhapsodeError):
    """A bug in the server; its cause is written to the log only."""


_BY_STATUS = {error.status: error for error in (NotAuthenticated, NotFound, MethodNotAllowed, BodyTooLarge)}


class ErrorResponse(JSONResponse):
    """An error in the shape that the clients of its route expect: OpenAI's, or ElevenLabs'."""

    def __init__(self, error: RhapsodeError, headers: dict[str, str]) -> None:
        super().__init__(error.body(), error.status, headers)
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_elevenlabs(scope):
            self.body, self.status_code = self.render(detail_of(self._error)), status_of(self._error)
            self.headers["Content-Length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def error_response(error: RhapsodeError) -> Response:
    """Returns an error as a response, with `Retry-After` where a retry may help."""
    headers = {}
    if isinstance(error, Busy):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    elif isinstance(error, Unavailable):
        headers["Retry-After"] = "5"
    elif isinstance(error, NotAuthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    elif isinstance(error, BodyTooLarge):
        headers["Connection"] = "close"  # the unread rest of the body must not be parsed as the next request
    return ErrorResponse(error, headers)


def explain(error: ValidationError, fields: Iterable[str]) -> InvalidRequest:
    """Returns the first problem of a body that may have these fields: one sentence that says what would be right."""
    found = error.errors(include_url=False, include_context=False)
    # Of several types that a field may have, the client meant the one whose error lies deepest.
    first = max((e for e in found if e["loc"][:1] == found[0]["loc"][:1]), key=lambda e: len(e["loc"]))
    where = _path(first["loc"])
    if first["type"] == "extra_forbidden":
        name = str(first["loc"][-1])[:MAX_SHOWN_CHARS]
        hint = f": {unknown_name(name, fields)}" if len(first["loc"]) == 1 else "."
        return UnknownOption(f"there is no field '{where}'{hint}", param=where)
    if first["type"] == "json_invalid":
        return InvalidRequest("the body is not valid JSON.")
    problem = first["msg"].removeprefix("Value error, ").rstrip(".")
    problem = problem[:1].lower() + problem[1:]
    return InvalidRequest(f"'{where}': {problem}." if where else f"{problem}.", param=where or None)


def _path(loc: tuple[int | str, ...]) -> str:
    """Returns the path of a field as the client wrote it, without the names of types that pydantic adds."""
    kept = [str(part) for part in loc if isinstance(part, int) or part.isidentifier()]
    return ".".join(part for part in kept if part not in ("str", "list", "body", "VoiceRef"))[:MAX_SHOWN_CHARS]


def install(app: FastAPI) -> None:
    """Installs handlers, so that every error of the application goes through `error_response`."""

    async def on_known(request: Request, error: Exception) -> Response:
        assert isinstance(error, RhapsodeError)
        return error_response(error)

    async def on_invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first: dict[str, Any] = error.errors()[0]
        return error_response(InvalidRequest(f"'{_path(first['loc'])}': {first['msg'].lower()}.", param=None))

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kind = _BY_STATUS.get(error.status_code, InvalidRequest if error.status_code < 500 else InternalError)
        words = {
            404: f"there is nothing at {request.url.path[:MAX_SHOWN_CHARS]}.",
            405: f"{request.method} is not for this path.",
        }
        response = error_response(kind(words.get(error.status_code, str(error.detail))))
        response.headers.update(error.headers or {})
        return response

    app.add_exception_handler(RhapsodeError, on_known)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)
