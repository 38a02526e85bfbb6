"""`/`: the web page; `/docs`: the API reference; and their files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request
from fastapi.responses import Response

from rhapsode.serve.response.errors import NotFound
from rhapsode.serve.service import Service

# All resources come from this server, none is inline, and no other page may embed this one.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; media-src blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",  # revalidated each time, and sent again only when it has changed
}
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class _File:
    body: bytes
    media_type: str
    tag: str

    def answer(self, request: Request) -> Response:
        headers = {**_HEADERS, "ETag": self.tag}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        return Response(self.body, media_type=self.media_type, headers=headers)


def router(service: Service) -> APIRouter:
    routes = APIRouter()
    get = partial(routes.api_route, methods=["GET", "HEAD"])
    known = dict(_walk(files("rhapsode.serve") / "web"))  # listed at the start, so that no path leads to another file

    @get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        service.host.expect_words()  # the page shows each word as it is heard
        return known["index.html"].answer(request)

    @get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        return known["docs.html"].answer(request)

    @get("/favicon.ico", include_in_schema=False)
    async def favicon(request: Request) -> Response:
        return known["icon.svg"].answer(request)

    @get("/web/{path:path}", include_in_schema=False)
    async def file(request: Request, path: str) -> Response:
        if path not in known:
            raise NotFound("there is no such file.")
        return known[path].answer(request)

    return routes


def _walk(folder: Traversable, prefix: str = "") -> list[tuple[str, _File]]:
    found: list[tuple[str, _File]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        elif (suffix := entry.name[entry.name.rfind(".") :]) in _TYPES:
            body = entry.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
            found.append((prefix + entry.name, _File(body, _TYPES[suffix], tag)))
    return found
