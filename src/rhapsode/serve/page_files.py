"""The files of the web page and of the API reference, which come with the package."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

from rhapsode.serve.response.errors import NotFound

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
PAGES = {"/": "index.html", "/docs": "docs.html", "/favicon.ico": "icon.svg"}
"""Files that have an address of their own; all others are below `/web/`."""


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


class PageFiles:
    """All files, read at the start, so that no path leads to another file."""

    def __init__(self) -> None:
        self._known = dict(_walk(files("rhapsode.serve") / "web"))

    async def page(self, request: Request) -> Response:
        """Answers a request for one of `PAGES`."""
        return self._known[PAGES[request.scope["path"]]].answer(request)

    async def file(self, request: Request) -> Response:
        """Answers a request for a file below `/web/`."""
        path = request.path_params["path"]
        if path not in self._known:
            raise NotFound("there is no such file.")
        return self._known[path].answer(request)


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, _File]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif (suffix := entry.name[entry.name.rfind(".") :]) in _TYPES:
            body = entry.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
            yield prefix + entry.name, _File(body, _TYPES[suffix], tag)
