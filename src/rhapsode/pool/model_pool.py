"""Which of several models are loaded: loads them when they are asked for, and makes room by unloading others."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from rhapsode.config.pool import PoolConfig
from rhapsode.edge.report import ReplicaReport
from rhapsode.errors import NoMemory, RhapsodeError, Unavailable
from rhapsode.pool.fetching import apart, fetched_bytes
from rhapsode.pool.member import Member
from rhapsode.pool.memory import available_bytes
from rhapsode.pool.process import ModelServer

log = logging.getLogger("rhapsode.pool")

LOOK_S = 0.25
"""How often the pool looks for models that have been idle for long enough."""


class ModelPool:
    """The processes of all models. Models are loaded one at a time, so that each finds the memory that others left; one
    that waits for room lets others go first."""

    def __init__(
        self,
        config: PoolConfig,
        fetch: Callable[[str], int] = fetched_bytes,
        free_bytes: Callable[[], int | None] = available_bytes,
    ) -> None:
        """`fetch` downloads what a model lacks, and returns an estimate of what it will take."""
        self.members = {
            name: Member(name, config.deployment(name), model.pinned) for name, model in config.models.items()
        }
        self.on_change: Callable[[str], None] = lambda name: None
        """Called with the name of a model whose process has come, gone or changed its state."""
        self._config, self._fetch = config, fetch
        self._free_bytes = free_bytes
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._stopping = False

    def watch(self) -> None:
        """Starts to unload models that nobody uses, and to load pinned ones again that have ended."""
        self._watching = asyncio.create_task(self._watch(), name="pool")

    async def stop(self, *, at_once: bool = False) -> None:
        """Ends all processes, each after what it speaks, unless they are to end at once."""
        self._stopping = True
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait((self._watching,))
        for member in self.members.values():
            if member.loading is not None:
                member.loading.cancel()
        await asyncio.gather(*(server.end(at_once=at_once) for server in self._servers()))

    async def load(self, name: str) -> None:
        """Loads a model, if it is not loaded. Whoever else asks for it meanwhile waits for the same attempt."""
        member = self.members[name]
        if member.report is None:
            await asyncio.shield(self._begin_to_load(member))

    def _begin_to_load(self, member: Member) -> asyncio.Task[None]:
        """Returns the attempt to load a model that is under way, or begins one."""
        if member.loading is None:
            member.loading_since_s = time.monotonic()
            member.loading = asyncio.create_task(self._load(member), name="load-model")
            member.loading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return member.loading

    async def _load(self, member: Member) -> None:
        try:
            if not member.loads:
                member.memory_bytes = await apart(lambda: self._fetch(member.deployment.model))
            await self._load_in_turn(member)
        except RhapsodeError as error:
            member.failed_s = time.monotonic()
            log.error("the model '%s' cannot be loaded: %s", member.name, error.message)
            raise
        finally:
            member.loading = member.loading_since_s = None

    async def _load_in_turn(self, member: Member) -> None:
        """Loads a model when it is its turn and there is room. While it waits for room, others have their turns."""
        patience = Patience(self._config.cold_start_s)
        crowd: list[ModelServer] = []
        while True:
            changed = self._changed
            if not member.is_leaving:
                async with self._turn:
                    if member.report is not None or await self._loads_now(member, crowd):
                        return
            if not await patience.waits_for(changed):
                others = ", ".join(other.name for other in self._movable(member))
                raise Unavailable(f"there is no room for '{member.name}' while others are in use: {others}.")

    async def _loads_now(self, member: Member, crowd: list[ModelServer]) -> bool:
        """Loads a model if there is room, or if models that nobody uses can make room; returns whether it is loaded.

        `crowd` are the processes beside which it did not fit: it is not tried again before one of them has gone.
        """
        while not member.is_leaving:
            is_crowded = bool(crowd) and all(server in self._servers() for server in crowd)
            movable = self._movable(member)
            if movable and (is_crowded or not self._has_room(member)):
                idle = [other for other in movable if other.idle_since_s is not None]
                would_do = is_crowded or idle == movable or self._has_room(member, idle)
                if not (idle and would_do and await self._unload_oldest(idle)):
                    return False
                continue
            try:
                await self._begin(member)
            except NoMemory:
                if not self._movable(member):
                    raise
                crowd[:] = self._servers()
            else:
                return True
        return False

    def _servers(self) -> list[ModelServer]:
        return [member.server for member in self.members.values() if member.server is not None]

    async def _begin(self, member: Member) -> None:
        began_s = time.monotonic()
        log.info("loading a model", extra={"fields": {"model": member.name}})
        server = member.server = ModelServer(member.name, member.own_deployment, lambda: self._note(member))
        try:
            await server.ready()
        except RhapsodeError:
            member.server = None
            await server.end()
            raise
        member.loads, member.failed_s = member.loads + 1, None
        member.load_s = time.monotonic() - began_s
        log.info("model loaded", extra={"fields": {"model": member.name, "s": round(member.load_s, 2)}})

    def _movable(self, member: Member) -> list[Member]:
        """Returns the models that may have to go for this one. Without any, loading will tell whether it fits: its size
        is an estimate."""
        return [
            other
            for other in self.members.values()
            if other is not member and other.server is not None and not other.is_pinned
        ]

    async def _unload_oldest(self, idle: Sequence[Member]) -> bool:
        """Unloads the model that nobody has used for longest, to make room; returns whether it has gone."""
        oldest = min(idle, key=lambda member: member.idle_since_s or 0.0)
        return await asyncio.shield(self._unload(oldest, "room"))  # who waits for the room may give up meanwhile

    def _has_room(self, member: Member, without: Sequence[Member] = ()) -> bool:
        """Returns whether a model probably fits beside those that are loaded, once some of them are unloaded."""
        loaded = [other for other in self.members.values() if other.server is not None and other not in without]
        if self._config.most_loaded is not None and len(loaded) >= self._config.most_loaded:
            return False
        if self._config.memory_bytes is not None:
            return sum(other.memory_bytes for other in (*loaded, member)) <= self._config.memory_bytes
        free_bytes = self._free_bytes()
        return free_bytes is None or member.memory_bytes <= free_bytes + sum(other.memory_bytes for other in without)

    async def _unload(self, member: Member, why: str) -> bool:
        """Ends the process of a model, unless it is in use; returns whether it has ended."""
        server = member.server
        if server is None or member.is_leaving:
            return server is None
        member.is_leaving = True
        self.on_change(member.name)
        try:
            has_left = await server.leave()
        finally:
            member.is_leaving = False
            self._tell(member)
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
        self._tell(member)

    def _tell(self, member: Member) -> None:
        """Tells the edge, and whoever waits for room, that a model has changed."""
        self.on_change(member.name)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _watch(self) -> None:
        """Neither waits for the other: a model that is loaded, or one that finishes what it speaks, may take long."""
        async with asyncio.TaskGroup() as group:
            while True:
                for member in self.members.values():
                    if self._is_idle(member):
                        group.create_task(self._unload(member, "idle"), name="unload-model")
                        await asyncio.sleep(0)  # it marks the model as leaving
                    elif self._is_missing(member):
                        self._begin_to_load(member)
                await asyncio.sleep(LOOK_S)

    def _is_idle(self, member: Member) -> bool:
        since_s, limit_s = member.idle_since_s, member.idle_unload_s
        return since_s is not None and limit_s is not None and time.monotonic() - since_s > limit_s

    def _is_missing(self, member: Member) -> bool:
        """Returns whether a pinned model has ended, and may be tried again."""
        if not member.is_pinned or member.report is not None or member.loading is not None:
            return False
        return member.failed_s is None or time.monotonic() - member.failed_s > self._config.load_pause_s


class Patience:
    """Waits for changes, all together for a bounded time."""

    def __init__(self, most_s: float) -> None:
        self._left_s = most_s

    async def waits_for(self, changed: asyncio.Event) -> bool:
        """Waits for a change; returns false when the time is up."""
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(self._left_s):
                await changed.wait()
        except TimeoutError:
            return False
        finally:
            self._left_s -= time.monotonic() - began_s
        return True


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
