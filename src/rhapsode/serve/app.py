"""The ASGI application: routes, middleware, and the model's lifetime."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from rhapsode import __version__
from rhapsode.config import Deployment
from rhapsode.errors import RhapsodeError
from rhapsode.models.registry import Model
from rhapsode.serve.client import Clients
from rhapsode.serve.dialects.middleware import Dialects, Translation
from rhapsode.serve.elevenlabs import routes as elevenlabs
from rhapsode.serve.elevenlabs import voice_routes as elevenlabs_voices
from rhapsode.serve.middleware.auth import ApiKeys
from rhapsode.serve.middleware.direct import DirectSpeech
from rhapsode.serve.middleware.leniency import Leniency
from rhapsode.serve.middleware.limits import BodyLimit
from rhapsode.serve.middleware.origins import Origins
from rhapsode.serve.middleware.traced import Traced
from rhapsode.serve.middleware.turnstile import Turnstile
from rhapsode.serve.observe.callbacks import measured
from rhapsode.serve.observe.logs import RequestLog
from rhapsode.serve.response import errors
from rhapsode.serve.routes import batch, detect, health, lexicon, models, outcomes, page, socket, speech, voices
from rhapsode.serve.service import Service

OWN = "openai"
log = logging.getLogger("rhapsode.serve")

EXPOSED_HEADERS = (
    "X-Request-Id",
    "X-Sample-Rate",
    "X-Channels",
    "X-Finish-Reason",
    "X-Input-Tokens",
    "X-Output-Tokens",
    "Retry-After",
    "X-Ignored-Fields",
    "X-Word-Timestamps",
    "X-Word-Timestamps-Omitted",
    "X-Cache",
    "X-Model-Wait-S",
)
"""Headers that a page of an allowed origin may read."""


def create_app(deployment: Deployment, model: Model | None = None, edge_secret: str = "") -> FastAPI:
    """Returns the application for one deployment; it answers `/health` while the model is still loading.

    `edge_secret` is for a replica of a cluster: who sends it says who the client is.
    """
    service = Service(deployment, model)
    app = FastAPI(
        title="Rhapsode",
        version=__version__,
        summary="Neural text-to-speech with the OpenAI speech API",
        lifespan=lambda app: _lifespan(service),
        servers=None if deployment.server.dialect == OWN else [{"url": f"/{OWN}"}],  # where our own API is, too
        docs_url=None,  # our own, without files from elsewhere: routes/page.py
        redoc_url=None,
        # Otherwise every request looks for exporters of OpenTelemetry in the environment.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.service = service
    ours = (speech, batch, outcomes, voices, detect, models, lexicon, health, socket)
    for route in (*ours, elevenlabs, elevenlabs_voices, page):
        app.include_router(route.router(service))
    _build_routes(app)
    errors.install(app)
    config = deployment.server
    app.add_middleware(DirectSpeech, service=service)  # type: ignore[arg-type, unused-ignore]
    takes_references = service.info.takes_references
    if not edge_secret:  # else the edge has translated already
        app.add_middleware(Translation, voices=lambda models: (*service.info.presets, *config.voice_aliases))
    app.add_middleware(BodyLimit, config=config, takes_references=takes_references, uploads=service.uploads)  # type: ignore[arg-type, unused-ignore]
    app.add_middleware(Clients, proxies=config.trusted_proxies, edge_secret=edge_secret)
    if config.api_keys:
        app.add_middleware(ApiKeys, keys=config.api_keys, public_lists=config.public_lists)
    if config.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=config.cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=EXPOSED_HEADERS,
        )
    app.add_middleware(Origins, config=config)
    app.add_middleware(Leniency)
    if not edge_secret:
        app.add_middleware(Dialects, config=config)
    app.add_middleware(Turnstile)
    app.add_middleware(RequestLog, metrics=service.metrics)
    if service.traces is not None:
        app.add_middleware(Traced, traces=service.traces)
    return app


def _build_routes(app: FastAPI) -> None:
    """Has the framework build what it would otherwise build in the first request, for 50 ms on the event loop."""
    nowhere = {"type": "http", "method": "GET", "path": "/-", "root_path": "", "headers": []}
    for route in app.router.routes:
        route.matches(nowhere)


@asynccontextmanager
async def _lifespan(service: Service) -> AsyncIterator[None]:
    debug = measured(asyncio.get_running_loop(), service.metrics) if service.config.debug else nullcontext()
    with debug:
        async with _served(service):
            yield


@asynccontextmanager
async def _served(service: Service) -> AsyncIterator[None]:
    loading = asyncio.create_task(_load(service), name="start")
    try:
        yield
    finally:
        loading.cancel()
        with suppress(asyncio.CancelledError):
            await loading
        await service.host.stop()
        service.close()


async def _load(service: Service) -> None:
    try:
        await service.host.start()
    except RhapsodeError as error:
        log.error("the model cannot be loaded: %s", error.message)
