"""`/`: the web page; `/docs`: the API reference; and their files."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import Response

from rhapsode.serve.page_files import PageFiles
from rhapsode.serve.service import Service


def router(service: Service) -> APIRouter:
    routes, files = APIRouter(), PageFiles()
    get = partial(routes.api_route, methods=["GET", "HEAD"], include_in_schema=False)

    @get("/")
    async def index(request: Request) -> Response:
        service.host.expect_words()  # the page shows each word as it is heard
        return await files.page(request)

    get("/docs")(files.page)
    get("/favicon.ico")(files.page)
    get("/web/{path:path}")(files.file)
    return routes
