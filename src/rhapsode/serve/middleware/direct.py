"""Answers the busiest route without the framework's routing, which would take a quarter of a request's CPU time."""

from __future__ import annotations

from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from rhapsode.errors import RhapsodeError
from rhapsode.serve.request.body import json_body
from rhapsode.serve.response.audio import SpeechResponse
from rhapsode.serve.response.errors import error_response
from rhapsode.serve.service import Service

SPEECH = "/v1/audio/speech"


class DirectSpeech:
    """Answers `POST /v1/audio/speech` as the application's own route does; all else goes on to the application.

    It is the innermost middleware, so keys, limits, origins, ids and metrics still apply. The application's own route
    remains for the API reference and for other HTTP methods.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._route = Route(SPEECH, app, methods=["POST"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != SPEECH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        scope["route"] = self._route
        try:
            data = await json_body(scope, receive)
            await SpeechResponse(self._service, data, scope["state"]["request_id"])(scope, receive, send)
        except RhapsodeError as error:
            await error_response(error)(scope, receive, send)
