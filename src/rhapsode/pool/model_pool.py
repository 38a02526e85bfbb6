"""Which of several models are loaded: loads them when they are asked for, and makes room by unloading others."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rhapsode.config import Deployment
from rhapsode.config.pool import PoolConfig
from rhapsode.edge.report import ReplicaReport
from rhapsode.errors import NoMemory, RhapsodeError, Unavailable
from rhapsode.pool.memory import available_bytes
from rhapsode.pool.process import ModelServer

log = logging.getLogger("rhapsode.pool")

LOOK_S = 0.25
"""How often the pool looks for models that have been idle for long enough."""


@dataclass(eq=False)
class Member:
    """A model of the pool, loaded or not."""

    name: str
    deployment: Deployment
    is_pinned: bool
    memory_bytes: int
    """What it took when it was loaded last; before that, an estimate."""
    server: ModelServer | None = None
    loading: asyncio.Task[None] | None = None
    loading_since_s: float | None = None
    is_leaving: bool = False
    failed_s: float | None = None
    """When it could not be loaded, or its process ended by itself."""
    loads: int = 0
    load_s: float | None = None
    """How long loading took last."""
    unloads: dict[str, int] = field(default_factory=lambda: {"idle": 0, "room": 0})

    @property
    def idle_unload_s(self) -> float | None:
        return None if self.is_pinned else self.deployment.server.idle_unload_s

    @property
    def report(self) -> ReplicaReport | None:
        """Returns the report of its process, if that takes requests."""
        state = self.server.state if self.server is not None else None
        return state.report if state is not None and not self.is_leaving else None

    @property
    def idle_since_s(self) -> float | None:
        """Returns since when nobody has used it; None if somebody does, or if it is not loaded or about to end."""
        state = self.server.state if self.server is not None and not self.is_leaving else None
        return state.used_s if state is not None and not state.in_use else None


class ModelPool:
    """The processes of all models. Models are loaded one at a time, so that each finds the memory that others left."""

    def __init__(
        self, config: PoolConfig, memory_bytes: dict[str, int], free_bytes: Callable[[], int | None] = available_bytes
    ) -> None:
        """`memory_bytes` has the estimate of every model."""
        self.members = {
            name: Member(name, config.deployment(name), model.pinned, memory_bytes[name])
            for name, model in config.models.items()
        }
        self.on_change: Callable[[str], None] = lambda name: None
        """Called with the name of a model whose process has come, gone or changed its state."""
        self._config = config
        self._free_bytes = free_bytes
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._stopping = False

    def watch(self) -> None:
        """Starts to unload models that nobody uses, and to load pinned ones again that have ended."""
        self._watching = asyncio.create_task(self._watch(), name="pool")

    async def stop(self) -> None:
        """Ends all processes, each after what it speaks."""
        self._stopping = True
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait((self._watching,))
        for member in self.members.values():
            if member.loading is not None:
                member.loading.cancel()
        await asyncio.gather(*(member.server.end() for member in self.members.values() if member.server is not None))

    async def load(self, name: str) -> None:
        """Loads a model, if it is not loaded. Whoever else asks for it meanwhile waits for the same attempt."""
        member = self.members[name]
        if member.report is None:
            if member.loading is None:
                member.loading_since_s = time.monotonic()
                member.loading = asyncio.create_task(self._load(member), name="load-model")
                member.loading.add_done_callback(lambda task: task.cancelled() or task.exception())
            await asyncio.shield(member.loading)

    async def _load(self, member: Member) -> None:
        try:
            async with self._turn:
                while member.report is None:
                    await self._make_room(member)
                    try:
                        await self._begin(member)
                    except NoMemory:
                        if not await self._unload_oldest(member):
                            raise
        except RhapsodeError as error:
            member.failed_s = time.monotonic()
            log.error("the model '%s' cannot be loaded: %s", member.name, error.message)
            raise
        finally:
            member.loading = member.loading_since_s = None

    async def _begin(self, member: Member) -> None:
        began_s = time.monotonic()
        log.info("loading a model", extra={"fields": {"model": member.name}})
        server = member.server = ModelServer(member.deployment, lambda: self._note(member))
        try:
            await server.ready()
        except RhapsodeError:
            member.server = None
            await server.end()
            raise
        member.loads, member.failed_s = member.loads + 1, None
        member.load_s = time.monotonic() - began_s
        log.info("model loaded", extra={"fields": {"model": member.name, "s": round(member.load_s, 2)}})

    async def _make_room(self, member: Member) -> None:
        """Unloads others until there is room for this model. While all others are in use, it waits for one."""
        try:
            async with asyncio.timeout(self._config.cold_start_s):
                while not self._has_room(member) and self._movable(member):
                    self._changed.clear()
                    if not await self._unload_oldest(member):
                        await self._changed.wait()
        except TimeoutError:
            others = ", ".join(other.name for other in self._movable(member))
            raise Unavailable(f"there is no room for '{member.name}' while others are in use: {others}.") from None

    def _movable(self, member: Member) -> list[Member]:
        """Returns the models that may have to go for this one. Without any, loading will tell whether it fits: its size
        is an estimate."""
        return [
            other
            for other in self.members.values()
            if other is not member and other.server is not None and not other.is_pinned
        ]

    async def _unload_oldest(self, member: Member) -> bool:
        """Unloads the model that nobody has used for longest, to make room; returns whether there was one."""
        idle = [(since_s, other) for other in self._movable(member) if (since_s := other.idle_since_s) is not None]
        if not idle:
            return False
        oldest = min(idle, key=lambda one: one[0])[1]
        return await asyncio.shield(self._unload(oldest, "room"))  # who waits for the room may give up meanwhile

    def _has_room(self, member: Member) -> bool:
        loaded = [other for other in self.members.values() if other.server is not None]
        if self._config.most_loaded is not None and len(loaded) >= self._config.most_loaded:
            return False
        if self._config.memory_bytes is not None:
            return sum(other.memory_bytes for other in (*loaded, member)) <= self._config.memory_bytes
        free_bytes = self._free_bytes()
        return free_bytes is None or member.memory_bytes <= free_bytes

    async def _unload(self, member: Member, why: str) -> bool:
        """Ends the process of a model, unless it is in use; returns whether it has ended."""
        server = member.server
        if server is None:
            return True
        member.is_leaving = True
        self.on_change(member.name)
        try:
            has_left = await server.leave()
        finally:
            member.is_leaving = False
            self.on_change(member.name)
        if has_left:
            member.unloads[why] += 1
            log.info("model unloaded", extra={"fields": {"model": member.name, "why": why}})
        return has_left

    def _note(self, member: Member) -> None:
        """Notes that the process of a model has changed its state, or has ended."""
        server = member.server
        if server is not None and server.state is not None:
            member.memory_bytes = max(server.state.memory_bytes, 1)
        elif server is not None and server.has_ended:
            member.server = None
            if not (member.is_leaving or member.loading is not None or self._stopping):
                member.failed_s = time.monotonic()
                log.error("the process of the model '%s' has ended", member.name)
        self.on_change(member.name)
        self._changed.set()

    async def _watch(self) -> None:
        while True:
            for member in self.members.values():
                if self._is_idle(member):
                    async with self._turn:
                        if self._is_idle(member):  # still, after the wait for the turn
                            await self._unload(member, "idle")
                elif self._is_missing(member):
                    await asyncio.gather(self.load(member.name), return_exceptions=True)
            await asyncio.sleep(LOOK_S)

    def _is_idle(self, member: Member) -> bool:
        since_s, limit_s = member.idle_since_s, member.idle_unload_s
        return since_s is not None and limit_s is not None and time.monotonic() - since_s > limit_s

    def _is_missing(self, member: Member) -> bool:
        """Returns whether a pinned model has ended, and may be tried again."""
        if not member.is_pinned or member.report is not None or member.loading is not None:
            return False
        return member.failed_s is None or time.monotonic() - member.failed_s > self._config.load_pause_s


class PoolSource:
    """One model of a pool, as the edge asks for it."""

    def __init__(self, pool: ModelPool, name: str) -> None:
        self._pool, self._member = pool, pool.members[name]

    @property
    def loading_since_s(self) -> float | None:
        return self._member.loading_since_s

    async def reports(self) -> Sequence[ReplicaReport]:
        report = self._member.report
        return [report] if report is not None else []

    async def wake(self) -> bool:
        await self._pool.load(self._member.name)
        return True
