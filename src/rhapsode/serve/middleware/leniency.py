"""Lets a request say what becomes of fields that mean nothing here, in place of the deployment's `unknown_fields`."""

from __future__ import annotations

from contextvars import ContextVar

from starlette.types import ASGIApp, Receive, Scope, Send

from rhapsode.config.server import ServerConfig
from rhapsode.serve.request.header import header

HEADER = b"x-unknown-fields"
WISHES = ("strict", "refuse", "ignore")
_wished: ContextVar[str] = ContextVar("unknown_fields", default="")


def unknown_fields(config: ServerConfig) -> str:
    """Returns what becomes of such fields of the current request."""
    return _wished.get() or config.unknown_fields


class Leniency:
    """Reads the header `X-Unknown-Fields`; another value than those of the setting counts as none."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            wish = header(scope, HEADER)
            _wished.set(wish if wish in WISHES else "")
        await self._app(scope, receive, send)
