"""Holds the model: loads it, warms it up, lets go of it when nobody asks, and drains it before the end."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import fields, replace
from typing import Any

from rhapsode.config import DEFAULT_SLOTS, Deployment
from rhapsode.engine import Engine
from rhapsode.engine.stage import Usage
from rhapsode.errors import Busy, InvalidRequest, RhapsodeError, Unavailable
from rhapsode.models.registry import Model
from rhapsode.serve.observe.metrics import Readings
from rhapsode.tts import open_engine
from rhapsode.types import Outcome, SpeechRequest, Voice

log = logging.getLogger("rhapsode.serve")

WARM_UP = "warm-up"


class Host:
    """The one way to the engine: `async with host.lease() as engine`."""

    def __init__(
        self,
        model: Model,
        deployment: Deployment,
        on_outcome: Callable[[Outcome], None] = lambda outcome: None,
        on_load: Callable[[], None] = lambda: None,
    ) -> None:
        self.model = model
        self.spec = model.spec
        self.deployment = deployment
        self.presets: tuple[str, ...] = model.spec.voices
        self.embedding_size: int | None = None
        self.error: RhapsodeError | None = None
        """Why the model could not be loaded the last time."""
        self.draining = False
        self.warm = False
        """The model has been loaded once; it may be unloaded now, and come back for a request."""
        self._on_outcome, self._on_load = on_outcome, on_load
        self._engine: Engine | None = None
        self._loading: asyncio.Task[Engine] | None = None
        self._changing = asyncio.Lock()
        self._leases = 0
        self._used_s = time.monotonic()
        self._past = Usage()
        self._idle_watch: asyncio.Task[None] | None = None

    # --- the life of the server ---

    async def start(self) -> None:
        """Load, warm up, and from then on watch for idleness."""
        await self._load()
        ttl_s = self.deployment.server.idle_unload_s
        if ttl_s is not None:
            self._idle_watch = asyncio.create_task(self._unload_when_idle(ttl_s), name="idle-watch")

    async def stop(self) -> None:
        self.draining = True
        if self._idle_watch:
            self._idle_watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._idle_watch
        if self._loading:
            with suppress(RhapsodeError):
                await self._loading
        await self._unload()

    @property
    def busy(self) -> int:
        """Requests that hold, or wait for, the engine."""
        return self._leases

    # --- the way to the engine ---

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Engine]:
        """The engine, loaded if need be, and kept until the block is left."""
        if self.draining:
            raise Unavailable("the server is shutting down.")
        limits = self.deployment.limits
        if self._engine is None and self._leases >= self._slots + limits.max_queue:
            raise Busy("too many requests are waiting for the model to load.", retry_after_s=5.0)
        self._leases += 1
        try:
            yield self._engine or await self._load()
        finally:
            self._leases -= 1
            self._used_s = time.monotonic()

    async def voices(self) -> tuple[str, ...]:
        """The presets; those of a checkpoint are known once it has been loaded."""
        if not self.warm and not self.spec.voices and self.spec.can.presets and not self.draining:
            await self._load()
        return self.presets

    async def embed(self, voice: Voice) -> tuple[float, ...]:
        """The speaker embedding of a voice: its own, or what the model hears in its reference."""
        if voice.embedding is not None:
            return voice.embedding
        async with self.lease() as engine:
            embed = _first(engine.pipeline.workers.values(), "embed")
            if embed is None or voice.reference is None:
                raise InvalidRequest(f"{self.spec.name} makes no embedding of this voice.", param="voice")
            return await asyncio.to_thread(embed, voice.reference)

    def readings(self) -> Readings:
        engine = self._engine
        if engine is None:
            past = self._past
            return Readings(False, self._slots, 0, 0, 0, 0, past.pages_shared, past.steps, past.frames,
                            self._leases)  # fmt: skip
        load, total = engine.load(), _add(self._past, engine.pipeline.usage())
        return Readings(
            loaded=True,
            slots=load.slots,
            slots_in_use=load.slots_in_use,
            queued=load.queued,
            pages=load.pages,
            pages_in_use=load.pages_in_use,
            pages_shared=total.pages_shared,
            steps=total.steps,
            frames=total.frames,
            requests_in_flight=self._leases,
            encoded=engine.pipeline.references.stats(),
        )

    @property
    def _slots(self) -> int:
        """As far as one can tell before the model is there."""
        return self.deployment.limits.max_concurrency or DEFAULT_SLOTS

    # --- loading and letting go ---

    async def _load(self) -> Engine:
        """Once, however many ask; who stops waiting stops nobody else."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._load_once(), name="load-model")
        return await asyncio.shield(self._loading)

    async def _load_once(self) -> Engine:
        started_s = time.perf_counter()
        gc.disable()  # loading makes a million objects, and each full collection would block the event loop
        try:
            async with self._changing:
                engine = await asyncio.to_thread(self._open)
        except RhapsodeError as error:
            self.error = error
            raise
        except Exception as error:
            log.exception("the model cannot be loaded")
            self.error = Unavailable(f"the model cannot be loaded ({type(error).__name__}).")
            raise self.error from error
        finally:
            self._loading = None
            gc.enable()
        self._engine, self.error, self.warm = engine, None, True
        self._on_load()
        self._used_s = time.monotonic()
        log.info("model ready", extra={"fields": {"model": self.spec.name, "s": _since(started_s)}})
        return engine

    def _open(self) -> Engine:
        engine = open_engine(self.model, self.deployment, self._tell)
        try:
            workers = engine.pipeline.workers.values()
            self.presets = self.spec.voices or _first(workers, "voices") or ()
            self.embedding_size = _first(workers, "embedding_size")
            self._warm_up(engine)
            gc.collect()
            gc.freeze()  # else each full collection scans the whole model and blocks the event loop
        except BaseException:
            engine.stop()
            raise
        return engine

    def _warm_up(self, engine: Engine) -> None:
        voice = Voice(embedding=(0.1,) * self.embedding_size) if self.embedding_size else Voice()
        for attempt in (Voice(), voice):
            with suppress(InvalidRequest):  # some models say nothing without a reference, others nothing with one
                for _ in engine.submit(SpeechRequest("Warm up.", attempt, seed=0, max_frames=4), WARM_UP):
                    pass
                return

    def _tell(self, outcome: Outcome) -> None:
        if outcome.request_id != WARM_UP:
            self._on_outcome(outcome)

    async def _unload_when_idle(self, ttl_s: float) -> None:
        while True:
            idle_s = time.monotonic() - self._used_s
            if self._engine is not None and not self._leases and idle_s >= ttl_s:
                await self._unload()
                log.info("model unloaded", extra={"fields": {"idle_s": round(idle_s, 1)}})
            await asyncio.sleep(max(0.05, min(ttl_s - idle_s, 5.0) if idle_s < ttl_s else ttl_s / 4))

    async def _unload(self) -> None:
        engine, self._engine = self._engine, None
        if engine is None:
            return
        self._past = _add(self._past, engine.pipeline.usage())  # a counter never goes back
        async with self._changing:
            await asyncio.to_thread(engine.stop)
            del engine
            await asyncio.to_thread(_free_memory)


def _add(past: Usage, usage: Usage) -> Usage:
    return replace(past, **{f.name: getattr(past, f.name) + getattr(usage, f.name) for f in fields(Usage)})


def _first(workers: Any, name: str) -> Any:
    """What the first stage that knows it says of the checkpoint."""
    return next((found for worker in workers if (found := getattr(worker, name, None))), None)


def _free_memory() -> None:
    gc.unfreeze()
    gc.collect()
    if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def _since(started_s: float) -> float:
    return round(time.perf_counter() - started_s, 2)
