"""Refuses requests from web pages of other origins: browsers let them post forms and open WebSockets to any server.

A page can also reach a server under a name of its own that resolves to the server's address (DNS rebinding). So a
server without API keys answers only under names it knows: loopback names, its own, and `server.allowed_hosts`. Plain
IP addresses are safe, since no name is resolved.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from rhapsode.config.server import ServerConfig
from rhapsode.errors import InvalidRequest, RhapsodeError
from rhapsode.serve.middleware.auth import GUARDED
from rhapsode.serve.response.errors import MAX_SHOWN_CHARS, error_response

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class ForbiddenOrigin(InvalidRequest):
    status, code = 403, "forbidden_origin"


class ForbiddenHost(InvalidRequest):
    status, code = 403, "forbidden_host"


class Origins:
    """Answers 403 to requests that come from a page of another origin, or under an unknown name."""

    def __init__(self, app: ASGIApp, config: ServerConfig) -> None:
        self._app = app
        self._origins = {origin.rstrip("/").lower() for origin in config.cors_origins}
        self._allowed = tuple(name.lower() for name in config.allowed_hosts)
        own = socket.gethostname().lower()
        self._own = {"localhost", config.host.lower(), own, f"{own}.local"}
        self._checks_hosts = not config.api_keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = self._refusal(scope) if scope["type"] in ("http", "websocket") else None
        if error is None:
            await self._app(scope, receive, send)
        else:
            await error_response(error)(scope, receive, send)

    def _refusal(self, scope: Scope) -> RhapsodeError | None:
        hosts = [value for key, value in scope["headers"] if key == b"host"]
        origins = [value for key, value in scope["headers"] if key == b"origin"]
        host = str(hosts[0], "latin-1") if len(hosts) == 1 else ""
        changes_state = scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS
        if self._checks_hosts and (changes_state or scope["path"].startswith(GUARDED)) and not self._knows(host):
            return ForbiddenHost(
                f"this server does not answer under the name '{host[:MAX_SHOWN_CHARS]}': add it to "
                "server.allowed_hosts, or set server.api_keys."
            )
        origin = str(origins[0], "latin-1") if origins else None
        if changes_state and origin is not None and not self._trusts(origin.lower(), host.lower()):
            return ForbiddenOrigin(
                f"pages of the origin '{origin[:MAX_SHOWN_CHARS]}' may not call this server: add it to "
                "server.cors_origins."
            )
        return None

    def _knows(self, host: str) -> bool:
        name = _name_of(host)
        if name in self._own or name.endswith(".localhost") or _is_among(name, self._allowed):
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True

    def _trusts(self, origin: str, host: str) -> bool:
        if "*" in self._origins or origin in self._origins:
            return True
        authority = origin.partition("://")[2]
        named = tuple(name for name in self._allowed if name != "*")
        return bool(authority) and (authority == host or _is_among(_name_of(authority), named))


@lru_cache(maxsize=64)
def _name_of(host: str) -> str:
    """Returns the name or address in a `Host` header, without its port; empty if there is none."""
    try:
        return urlsplit(f"//{host.lower()}").hostname or ""
    except ValueError:
        return ""


def _is_among(name: str, allowed: Iterable[str]) -> bool:
    """Returns whether a name matches one of these: `*`, exact names, or `*.suffix` for the names below it."""
    return any(
        pattern == "*" or name == pattern or (pattern.startswith("*.") and name.endswith(pattern[1:]))
        for pattern in allowed
    )
