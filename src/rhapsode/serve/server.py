"""The server process: listens, prints its configuration, serves, and drains before it exits."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from types import FrameType

import uvicorn
from fastapi import FastAPI

from rhapsode import loading
from rhapsode.config import Deployment
from rhapsode.config.server import ServerConfig
from rhapsode.errors import RhapsodeError
from rhapsode.models.placement import describe_places
from rhapsode.serve.app import create_app
from rhapsode.serve.closing import Closing
from rhapsode.serve.connection import ConnectionConfig
from rhapsode.serve.observe.log_lines import NEW_LINE, configure
from rhapsode.serve.ports import Ports
from rhapsode.serve.process.engine_process import EngineProcess, is_apart
from rhapsode.serve.service import Service
from rhapsode.serve.wyoming.listener import WyomingListener
from rhapsode.types import ModelInfo

log = logging.getLogger("rhapsode.serve")

LAST_BYTES_S = 5.0
TICKS_PER_S = 10  # of uvicorn's loop
OWN_PROCESS = "of the engine's process; it is named when the model is ready"


class Server(uvicorn.Server):
    """uvicorn with our settings. On the first signal it drains: it finishes the running requests, then exits. On a
    second signal it exits at once."""

    def __init__(self, app: FastAPI, wyoming: socket.socket | None = None) -> None:
        """`wyoming` is the socket that listens for Wyoming clients, if there is one."""
        self._service: Service = app.state.service
        config = self._service.config
        self._wyoming = WyomingListener(self._service, wyoming) if wyoming is not None else None
        super().__init__(
            ConnectionConfig(
                app,
                config,
                self._service.uploads,
                loop="asyncio" if config.debug else "auto",  # only asyncio's own loop can be measured
                access_log=False,
                log_config=None,
                server_header=False,
                lifespan="on",
                ws_max_size=config.max_body_bytes if self._service.info.takes_references else config.max_json_bytes,
                ws_per_message_deflate=False,
                timeout_graceful_shutdown=round(LAST_BYTES_S),
            )
        )
        self._drain_by_s: float | None = None
        self._closing = Closing(config.max_request_s)

    @property
    def failed(self) -> RhapsodeError | None:
        """Returns the error of loading the model, if the model has never been loaded."""
        host = self._service.host
        return None if host.warm else host.error

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._wyoming is not None and not self.should_exit:
            await self._wyoming.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._wyoming is not None:
            await self._wyoming.stop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._service.host.is_starting:
            # The thread that loads cannot be stopped, and no client is served yet: there is nothing to wait for.
            print("rhapsode: interrupted while the model was loaded.", file=sys.stderr, flush=True)
            os._exit(128 + sig)
        if self._drain_by_s is None:
            say_stopping(self._service.host.busy)
            self.drain()
        else:
            self.should_exit = True
            self.force_exit = sig == signal.SIGINT

    def drain(self) -> None:
        """Refuses new requests; the server ends with the last that runs."""
        self._service.host.draining = True
        self._drain_by_s = time.monotonic() + self._service.config.drain_timeout_s

    async def on_tick(self, counter: int) -> bool:
        if self._drain_by_s is not None and not self.should_exit:
            if time.monotonic() > self._drain_by_s:
                await self._service.host.stop()  # aborts running requests, so that their clients get an error
                self.should_exit = True
            open_connections = self._service.sockets + (self._wyoming.connections if self._wyoming else 0)
            self.should_exit |= not self._service.host.busy and not open_connections
        self.should_exit |= self.failed is not None
        if counter % TICKS_PER_S == 0:
            self._closing.check((each.transport for each in self.server_state.connections), time.monotonic())
        return await super().on_tick(counter)


def say_stopping(running: int) -> None:
    """Says that the server ends, and what it still waits for."""
    wait = f": {running} requests are spoken to their end; once more ends them" if running else ""
    print(f"rhapsode: stopping{wait}.", file=sys.stderr, flush=True)


def serve(deployment: Deployment, ports: Ports, process: EngineProcess | None = None) -> None:
    """Serves until a signal stops it. `process` is the engine's process, if it has already been started."""
    config, imported_s = deployment.server, loading.process_age_s()
    app = create_app(deployment)
    service: Service = app.state.service
    configure(config.log_format)
    loading.took("imports of the server", imported_s)
    loading.took("application", loading.process_age_s() - imported_s)
    ports.listen()
    service.host.start_early(process)
    if not is_apart(deployment):
        loading.report("import of torch")
    _print_resolved(deployment, service, ports)
    loading.done()
    server = Server(app, ports.wyoming)
    with contextlib.suppress(KeyboardInterrupt):
        server.run([ports.http])
    if server.failed:
        raise server.failed


def _print_resolved(deployment: Deployment, service: Service, ports: Ports) -> None:
    """Prints the resolved configuration for the operator, each line as soon as it is known: to name the device, torch
    has to be imported, which takes seconds."""
    begin = NEW_LINE if sys.stderr.isatty() else ""  # a step of loading may stand there
    for name, value in _resolved(deployment, service, ports):
        print(f"{begin}{name:>10}  {value}", file=sys.stderr, flush=True)


def _resolved(deployment: Deployment, service: Service, ports: Ports) -> Iterator[tuple[str, str]]:
    config, limits, chunks, info = deployment.server, deployment.limits, deployment.chunks, service.info
    at_once = limits.max_concurrency or "as many as fit"
    port, wyoming = ports.http.getsockname()[1], ports.wyoming
    pace = "as many listeners as stay faster than real time" if limits.real_time else "all slots, whatever the pace"
    yield "listening", f"http://{authority(config.host, port)}  (docs: /docs, page: /)"
    if wyoming is not None:
        yield "wyoming", f"tcp://{authority(config.wyoming.host, wyoming.getsockname()[1])}  (Home Assistant; no keys)"
    yield "model", f"{deployment.model}: {info.summary}"
    yield "can", f"{', '.join(info.can.names())}; languages: {', '.join(info.languages) or 'any'}"
    yield "voices", "; ".join(_voices(info, config))
    yield "device", OWN_PROCESS if is_apart(deployment) else describe_places(service.spec, deployment)
    yield "limits", f"{at_once} at once, {limits.max_queue} waiting, {limits.max_text_chars} characters; {pace}"
    yield "chunks", f"{chunks.first} frame first, then x{chunks.growth} up to {chunks.largest}"
    yield "names", ", ".join(["localhost", "IP addresses", *config.allowed_hosts]) if not config.api_keys else "any"
    yield "api keys", f"{len(config.api_keys)}" if config.api_keys else "none: whoever can connect can speak"
    yield "unload", f"after {config.idle_unload_s:g} s idle" if config.idle_unload_s is not None else "never"


def _voices(info: ModelInfo, config: ServerConfig) -> Iterator[str]:
    yield ", ".join(info.voices) or "no presets"
    if info.to_download:
        yield f"downloaded when first asked for: {', '.join(info.to_download)}"
    if info.takes_uploads:
        yield f"uploads in {config.voices}"


def authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
