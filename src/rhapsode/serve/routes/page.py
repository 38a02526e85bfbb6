"""`/`: a page to speak from."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from rhapsode.serve.service import Service

_POLICY = (
    "default-src 'none'; connect-src 'self'; media-src blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)


def router(service: Service) -> APIRouter:
    routes = APIRouter()
    page = (files("rhapsode.serve") / "page.html").read_text("utf-8")

    @routes.get("/", include_in_schema=False)
    async def index() -> HTMLResponse:
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})

    return routes
