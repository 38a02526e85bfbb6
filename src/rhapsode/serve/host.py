"""Owns the engine of a server: loads it, warms it up, unloads it when idle, and stops it with the server."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Literal

from rhapsode import loading
from rhapsode.config import DEFAULT_SLOTS, Deployment
from rhapsode.engine import Load
from rhapsode.errors import InvalidRequest, RhapsodeError, Unavailable
from rhapsode.kernel_cache.compilation import Compilation
from rhapsode.models.registry import Model
from rhapsode.serve.garbage import collect_rarely
from rhapsode.serve.load_error import load_error
from rhapsode.serve.local_engine import LocalEngine, ServedEngine
from rhapsode.serve.memory import trim
from rhapsode.serve.observe.metrics import Readings, Totals
from rhapsode.serve.process.engine_process import EngineProcess, is_apart
from rhapsode.serve.request.names import served_id
from rhapsode.serve.waiting_room import WaitingRoom
from rhapsode.serve.warm_up import load_aligner, open_warm, start_early
from rhapsode.types import Outcome, Voice

log = logging.getLogger("rhapsode.serve")

RETRY_S = 10.0
"""The pause before an engine's process is started again after it could not be started."""


class Host:
    """Loads the engine, lends it to requests (`async with host.lease() as engine`), and unloads it when it is idle."""

    def __init__(
        self,
        model: Model,
        deployment: Deployment,
        on_outcome: Callable[[Outcome], None] = lambda outcome: None,
        on_load: Callable[[], None] = lambda: None,
    ) -> None:
        self.model = model
        self.info = model.info(deployment.options)
        self.deployment = deployment
        self.error: RhapsodeError | None = None
        """The error of the last attempt to load the model, if it failed."""
        self.draining = False
        self.warm = False
        """True once the model has been loaded. It may be unloaded since; the next request loads it again."""
        self._on_outcome, self._on_load = on_outcome, on_load
        self._is_apart = is_apart(deployment)
        self._engine: ServedEngine | None = None
        self._loading: asyncio.Task[ServedEngine] | None = None
        self._changing = asyncio.Lock()
        self._waiting = WaitingRoom(self._slots + deployment.limits.max_queue)
        self._leases, self._expects_words = 0, deployment.alignment.at_start is True  # then the aligner is loaded, too
        self.used_s = time.monotonic()  # when the last request ended, or the model was loaded
        self._past = Totals()
        self._idle_watch: asyncio.Task[None] | None = None
        self._loss_watch: asyncio.Task[None] | None = None
        self._compiling: Compilation | None = None
        self._starting: EngineProcess | None = None

    # --- start and stop ---

    def start_early(self, process: EngineProcess | None = None) -> None:
        """Starts those parts of loading that do not need torch, whose import takes seconds, while the server itself is
        still starting. `process` is the engine's process, if it has already been started."""
        self._starting = process
        if not self._is_apart:
            self._compiling = start_early(self.model, self.deployment)

    async def start(self) -> None:
        """Loads and warms up the model; then starts the task that unloads it when it is idle."""
        await self._load()
        ttl_s = self.deployment.server.idle_unload_s
        if ttl_s is not None:
            self._idle_watch = asyncio.create_task(self._unload_when_idle(ttl_s), name="idle-watch")

    async def stop(self) -> None:
        """Refuses new requests, aborts running ones and stops the engine. The process ends next, and its memory with
        it."""
        self.draining = True
        for watch in (self._idle_watch, self._loss_watch):
            if watch is not None:
                watch.cancel()
                with suppress(asyncio.CancelledError):
                    await watch
        if self._loading:
            with suppress(RhapsodeError):
                await self._loading
        if self._compiling is not None:  # the model was never loaded
            self._compiling.stop()
            self._compiling = None
        if self._starting is not None:
            await self._starting.stop()
            self._starting = None
        engine, self._engine = self._engine, None
        if engine is not None:
            async with self._changing:
                await self._stop(engine)

    @property
    def is_starting(self) -> bool:
        """Whether the first load, at the server's start, is still running, and no request waits for it yet."""
        return self._loading is not None and not self.warm and not self._leases

    @property
    def busy(self) -> int:
        """How many requests use the engine or wait until it is loaded."""
        return self._leases

    @property
    def loaded(self) -> ServedEngine | None:
        """The engine; `None` if no model is loaded, or if the engine's process has died."""
        return None if self._engine is None or self._engine.is_lost else self._engine

    @property
    def status(self) -> Literal["loaded", "loading", "unloaded"]:
        return "loaded" if self.loaded is not None else "loading" if self._loading is not None else "unloaded"

    @property
    def is_lost(self) -> bool:
        """Whether the engine's process has died or hung, and no other has taken its place yet."""
        return self._engine is not None and self._engine.is_lost

    @property
    def has_failed(self) -> bool:
        """Whether the engine's process is lost and could not be started again. It is tried again from time to time."""
        return self.is_lost and self.error is not None

    # --- requests ---

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[ServedEngine]:
        """Yields the engine, after loading it if necessary; it is not unloaded before the block ends."""
        self.hold()
        try:
            yield await self.engine()
        finally:
            self.release()

    def hold(self) -> None:
        """Keeps the engine from being unloaded until `release` is called. Raises an error if the server cannot accept
        the request."""
        if self.draining:
            raise Unavailable("the server is shutting down.")
        self._leases += 1

    def release(self) -> None:
        self._leases -= 1
        self.used_s = time.monotonic()

    async def engine(self, client: str = "") -> ServedEngine:
        """Returns the engine, for which a request of a client may have to wait."""
        return await self._waiting.wait(client, self._load()) if self.loaded is None else self.loaded

    async def embed(self, voice: Voice) -> tuple[float, ...]:
        """Returns the speaker embedding of a voice: its own, or that of its reference."""
        if voice.embedding is not None:
            return voice.embedding
        if not voice.references:
            raise InvalidRequest("this voice has neither an embedding nor a reference.", param="voice")
        async with self.lease() as engine:
            return await engine.embed(voice.references[0].audio)

    def readings(self) -> Readings:
        """Returns the state of the engine for metrics and health checks."""
        engine = self.loaded
        return Readings(
            loaded=engine is not None,
            load=engine.load() if engine else Load(slots=self._slots),
            totals=self._past + Totals.of(self._engine.load()) if self._engine else self._past,
            requests_in_flight=self._leases,
        )

    @property
    def _slots(self) -> int:
        """Returns the number of slots to assume while no model is loaded: an estimate if the setting is `auto`."""
        return self.deployment.limits.max_concurrency or DEFAULT_SLOTS

    def expect_words(self) -> None:
        """Loads the aligner now and with each later load, unless the deployment says when, or the engine is apart."""
        if not self._expects_words and self.deployment.alignment.at_start is None:
            self._expects_words = True
            self._load_aligner(self.loaded)

    def _load_aligner(self, engine: ServedEngine | None) -> None:
        if self._expects_words and isinstance(engine, LocalEngine):
            load_aligner(engine.engine)

    # --- load and unload ---

    async def _load(self) -> ServedEngine:
        """Loads the model once for all waiting requests; cancelling one of them does not cancel the load."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._load_once(), name="load-model")
        return await asyncio.shield(self._loading)

    async def _load_once(self) -> ServedEngine:
        started_s = time.perf_counter()
        gc.disable()  # loading makes a million objects, and each full collection would block the event loop
        gc.freeze()  # the collection after loading then skips all imported modules
        try:
            async with self._changing:
                engine = await self._open()
        except Exception as error:
            self.error = load_error(error)
            raise self.error from None
        finally:
            self._loading = None
            collect_rarely()
        lost, self._engine = self._engine, engine
        self.error, self.warm = None, True
        if lost is not None:  # its process has died
            async with self._changing:
                await self._stop(lost)
        self._on_load()
        self.used_s = time.monotonic()
        fields = {
            "model": served_id(self.deployment),
            "s": _since(started_s),
            "real_time_listeners": engine.load().places,
        }
        fields["since_start_s"] = round(loading.process_age_s(), 2)
        if isinstance(engine, EngineProcess):
            fields["device"] = f"'{engine.device}'"
            self._loss_watch = asyncio.create_task(self._load_when_lost(engine), name="loss-watch")
        log.info("model ready", extra={"fields": fields})
        self._load_aligner(engine)
        return engine

    async def _open(self) -> ServedEngine:
        if self._is_apart:
            process, self._starting = self._starting or EngineProcess(self.deployment), None
            process.on_outcome = self._on_outcome
            try:
                await process.ready(self.model.spec)
            except RhapsodeError:
                await process.stop()
                raise
            return process
        compiling, self._compiling = self._compiling, None
        own = (self.model, self.deployment, self._on_outcome, compiling)
        loader = ThreadPoolExecutor(1, "load-model")  # MKL keeps 15 MB for each thread until the thread ends
        try:
            return LocalEngine(await asyncio.get_running_loop().run_in_executor(loader, open_warm, *own))
        finally:
            loader.shutdown(wait=False)

    async def _load_when_lost(self, process: EngineProcess) -> None:
        """Loads the model again when the engine's process has died, unless the server itself stopped it."""
        await process.gone()
        while self._engine is process and not self.draining:
            log.error("the engine's process has ended: it is started again")
            try:
                await self._load()
            except RhapsodeError as error:
                log.error("the engine's process cannot be started again: %s", error.message)
                await asyncio.sleep(RETRY_S)

    async def _unload_when_idle(self, ttl_s: float) -> None:
        while True:
            idle_s = time.monotonic() - self.used_s
            if self._engine is not None and not self._leases and idle_s >= ttl_s:
                await self._unload()
                log.info("model unloaded", extra={"fields": {"idle_s": round(idle_s, 1)}})
            await asyncio.sleep(max(0.05, min(ttl_s - idle_s, 5.0) if idle_s < ttl_s else ttl_s / 4))

    async def _unload(self) -> None:
        """Stops the engine, if there is one, and frees its memory."""
        engine, self._engine = self._engine, None
        if engine is None:
            return
        async with self._changing:
            await self._stop(engine)
            del engine  # the last reference: otherwise its memory would wait for a later collection
            await asyncio.to_thread(_free_memory)

    async def _stop(self, engine: ServedEngine) -> None:
        self._past += Totals.of(engine.load())  # counters must not decrease
        await engine.stop()


def _free_memory() -> None:
    gc.unfreeze()
    gc.collect()
    if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
    trim()


def _since(started_s: float) -> float:
    return round(time.perf_counter() - started_s, 2)
