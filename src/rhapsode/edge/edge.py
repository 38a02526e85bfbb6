"""The edge: one address for all models. It checks keys and limits, chooses a replica, and forwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from rhapsode.config.served import ServedModels
from rhapsode.edge.choice import ModelNames, RoutingWish, affinity, read_elevenlabs_wish, read_wish
from rhapsode.edge.fleet import Fleet, FleetReplica
from rhapsode.edge.forward import ForwardedResponse, Forwarding
from rhapsode.edge.gather import Gatherer
from rhapsode.edge.metrics import EdgeMetrics
from rhapsode.edge.owners import Owners, lost_outcome
from rhapsode.edge.page_wish import PageWish
from rhapsode.edge.paths import (
    BATCH,
    ELEVENLABS_SOCKET,
    ELEVENLABS_VOICES,
    FORWARDED,
    PAGE_METHODS,
    SOCKET,
    SPEECH,
    VOICES,
    chosen,
    route,
)
from rhapsode.edge.relay import SocketRelay
from rhapsode.edge.upstream import Upstream, target_of
from rhapsode.errors import Aborted, InvalidRequest, RhapsodeError, Unavailable
from rhapsode.serve.client import client_of
from rhapsode.serve.elevenlabs.errors import is_elevenlabs
from rhapsode.serve.observe.traces import open_traces
from rhapsode.serve.page_files import PAGES, PageFiles
from rhapsode.serve.request.header import header
from rhapsode.serve.response.errors import NotFound, error_response


class Edge:
    """An ASGI application that answers as one server would, for all replicas of all models."""

    def __init__(
        self, config: ServedModels, fleet: Fleet, metrics: EdgeMetrics | None = None, *, is_lazy: bool = False
    ) -> None:
        """`is_lazy`: the edge starts to poll replicas with its first request, since it may never get one."""
        self.is_draining = False
        self.is_starting = False
        """Whether models are still loaded that were wanted from the start."""
        self.metrics = metrics or EdgeMetrics()
        self.traces = open_traces(config.server.traces)
        self._config = config
        self._fleet = fleet
        self._is_lazy = is_lazy
        self._names = ModelNames(config)
        self._owners = Owners()
        self._upstream: Upstream | None = None
        self._gathering: Gatherer | None = None
        self._page_wish: PageWish | None = None
        self._files = PageFiles()
        self._sockets = 0
        self._routes = [
            route("/health", self._health),
            route("/ready", self._ready),
            route("/metrics", self._read_metrics),
            route("/v1/models", self._models),
            route("/v1/audio/models", self._models),
            route("/v1/models/{name:path}", self._model),
            route(VOICES, self._voices),
            route("/v1/audio/speech/{request_id}", self._outcome),
            route(ELEVENLABS_VOICES, self._elevenlabs_voices),
            route("/openapi.json", self._api_description, PAGE_METHODS),
            *(route(path, self._speak, {"POST"}) for path in SPEECH),
            *(route(path, self._forward, methods) for path, methods in FORWARDED.items()),
            *(route(path, self._page, PAGE_METHODS) for path in PAGES),
            route("/web/{path:path}", self._files.file, PAGE_METHODS),
        ]

    @property
    def in_flight(self) -> int:
        """The number of speech requests and WebSockets in flight through this edge."""
        return self._owners.in_flight + self._sockets

    def voices(self, models: Sequence[str]) -> tuple[str, ...]:
        """Returns the presets and aliases of the first of these models that is served, or of the default model."""
        served = next(filter(self._names.known, models), None)
        known = self._fleet.models[self._names.find(served)].known
        return (*(known.presets if known else ()), *self._config.server.voice_aliases)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await self._relay(WebSocket(scope, receive, send))
        else:
            try:
                response = await self._answer(scope, receive)
                await response(scope, receive, send)
            except RhapsodeError as error:
                await error_response(error)(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self._upstream = Upstream(self._config.server)
        self._gathering = Gatherer(self._fleet, self._upstream)
        self._page_wish = PageWish(self._fleet, self._gathering)
        if not self._is_lazy:
            self._fleet.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._fleet.stop()
        await self._upstream.close()
        if self.traces is not None:
            self.traces.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        self._fleet.start()
        return await chosen(self._routes, scope)(Request(scope, receive))

    # --- the edge itself ---

    def _state(self) -> dict[str, Any]:
        models = {name: {"replicas": len(model.replicas)} for name, model in self._fleet.models.items()}
        missing = [name for name in models if self._config.is_always_there(name) and not models[name]["replicas"]]
        status = "draining" if self.is_draining else "loading" if missing or self.is_starting else "ready"
        return {"status": status, "models": models}

    async def _health(self, request: Request) -> Response:
        """Answers 200 once every model that should be there is."""
        state = self._state()
        return JSONResponse(state, 503 if state["status"] == "loading" else 200, {"Cache-Control": "no-store"})

    async def _ready(self, request: Request) -> Response:
        """Answers 200 once the edge can serve any model: one that cannot be loaded does not block the others."""
        state = self._state()
        served = any(
            model["replicas"] or not self._config.is_always_there(name) for name, model in state["models"].items()
        )
        return JSONResponse(state, 200 if served and not self.is_draining else 503, {"Cache-Control": "no-store"})

    async def _read_metrics(self, request: Request) -> Response:
        text = await self._gatherer.metrics(self.metrics.text(self._fleet, self.in_flight))
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    async def _page(self, request: Request) -> Response:
        if request.scope["path"] == "/" and self._page_wish is not None:
            self._page_wish.opened()
        return await self._files.page(request)

    # --- several replicas ---

    async def _api_description(self, request: Request) -> Response:
        return JSONResponse(await self._gatherer.api_description(request))

    async def _models(self, request: Request) -> Response:
        if is_elevenlabs(request.scope):
            return JSONResponse(await self._gatherer.elevenlabs_models(request))
        found = await self._gatherer.models(request)
        extra = {"models": found} if request.scope["path"].startswith("/v1/audio/") else {}
        return JSONResponse({"object": "list", "data": found, **extra})

    async def _voices(self, request: Request) -> Response:
        wanted = request.query_params.get("model")
        names = [self._names.find(wanted)] if wanted else list(self._fleet.models)
        found = await self._gatherer.voices(request, names)
        return JSONResponse({"object": "list", "data": found, "voices": found})

    async def _elevenlabs_voices(self, request: Request) -> Response:
        found = await self._gatherer.elevenlabs_voices(request)
        return JSONResponse({"voices": found})

    async def _outcome(self, request: Request) -> Response:
        request_id = request.path_params["request_id"]
        owner = self._owners.owner(request_id)
        found = await self._gatherer.outcome(request, request_id, owner)
        if found is None and owner is not None and self._fleet.find(owner) is None:
            found = lost_outcome(request_id)
        if found is None:
            raise NotFound("no request of that id is known; only the last ones are kept.", param="request_id")
        return JSONResponse(found)

    # --- one replica ---

    async def _model(self, request: Request) -> Response:
        name = request.path_params["name"]
        return await self._send(request, _wish_for(self._names.find(name)))

    async def _speak(self, request: Request) -> Response:
        if self.is_draining:
            raise Unavailable("the server is shutting down.")
        request_id = request.state.request_id
        if self._owners.is_running(request_id):
            raise InvalidRequest(f"a request with the id '{request_id}' is still running.")
        return await self._send(request, None)

    async def _forward(self, request: Request) -> Response:
        changes_voices = request.method != "GET" and request.scope["path"].startswith(ELEVENLABS_VOICES)
        is_about_voices = changes_voices or request.scope["path"].startswith(VOICES)
        is_about_voices = is_about_voices and not request.query_params.get("model")
        return await self._send(request, _wish_for(self._model_with_voices() if is_about_voices else None))

    def _model_with_voices(self) -> str:
        """Returns the first model that speaks with uploaded voices."""
        for name, model in self._fleet.models.items():
            if model.known is not None and model.known.takes_voices:
                return name
        return self._names.default

    async def _send(self, request: Request, wish: RoutingWish | None) -> Response:
        """Returns a response that forwards the request. Without a wish it is speech, and the wish is in its body."""
        try:
            body = await request.body()
        except ClientDisconnect:
            raise Aborted("the client disconnected before its request was complete.") from None
        is_speech = wish is None
        wish = wish or await _wish_of(request, body)
        model = self._fleet.models[self._names.chosen(wish, request.query_params.get("model"))]
        scope, request_id = request.scope, request.state.request_id
        presets = model.known.presets if model.known else ()
        forwarding = Forwarding(
            model=model,
            key=affinity(header(scope, b"x-session-id"), wish.voice, presets) if is_speech else None,
            method=request.method,
            target=target_of(scope),
            headers=request.headers.raw,
            body=body,
            request_id=request_id,
            client=client_of(scope),
            is_repeatable=is_speech or request.method == "GET",
        )
        assert self._upstream is not None

        def taken_by(replica: FleetReplica | None) -> None:
            if not is_speech:
                return
            if replica is None:
                self._owners.ended(request_id)
            else:
                self._owners.began(request_id, replica.id)

        return ForwardedResponse(self._upstream, forwarding, taken_by)

    async def _relay(self, socket: WebSocket) -> None:
        """Relays a WebSocket. If several models are served, its first message is read to choose the model."""
        self._fleet.start()
        relay = SocketRelay(socket)
        self._sockets += 1
        try:
            if self.is_draining:
                raise Unavailable("the server is shutting down.")
            socket.scope["state"].get("expect_reference", lambda is_expected: None)(True)
            wish = await self._wish_of_socket(socket, relay)
            model = self._fleet.models[self._names.chosen(wish, None)]
            presets = model.known.presets if model.known else ()
            key = affinity(socket.headers.get("x-session-id", ""), wish.voice, presets)
            await relay.run(lambda: model.candidates(key), target_of(socket.scope))
        except WebSocketDisconnect:
            pass
        except RhapsodeError as error:
            await relay.refuse(error)
        finally:
            self._sockets -= 1

    async def _wish_of_socket(self, socket: WebSocket, relay: SocketRelay) -> RoutingWish:
        if found := ELEVENLABS_SOCKET.fullmatch(socket.scope["path"]):
            return _wish_for(self._names.known(socket.query_params.get("model_id")), found["voice"])
        if socket.scope["path"] != SOCKET:
            raise NotFound(f"there is nothing at {socket.scope['path'][:64]}.")
        wanted = socket.query_params.get("model")
        if not wanted and len(self._fleet.models) > 1:
            return await relay.read_wish(self._config.server.socket.config_s)
        return _wish_for(wanted)

    @property
    def _gatherer(self) -> Gatherer:
        assert self._gathering is not None
        return self._gathering


async def _wish_of(request: Request, body: bytes) -> RoutingWish:
    """Returns the wish of a speech request."""
    if is_elevenlabs(request.scope):
        return await read_elevenlabs_wish(body, request.path_params.get("voice"))
    return await read_wish(body, is_batch=request.scope["path"] == BATCH)


def _wish_for(model: str | None, voice: str | None = None) -> RoutingWish:
    return RoutingWish((model,) if model else (), voice=voice)
