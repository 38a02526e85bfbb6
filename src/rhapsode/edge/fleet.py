"""The replicas of every model, as one edge knows them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from rhapsode.edge.balance import in_order
from rhapsode.edge.report import ReplicaReport
from rhapsode.errors import Busy, RhapsodeError, Unavailable

log = logging.getLogger("rhapsode.edge")

POLL_S = 0.5


class ReplicaSource(Protocol):
    """The source of a model's replicas: it reports them, and starts the first one."""

    @property
    def loading_since_s(self) -> float | None:
        """Since when a first replica is being started, on the monotonic clock; None if none is, or nobody knows."""

    async def reports(self) -> Sequence[ReplicaReport] | None:
        """Returns the reports of all replicas; None if they are not known now."""

    async def wake(self) -> bool:
        """Asks for a first replica, and waits for it; returns false if none can be started. Raises an error that says
        why not, if that is known."""


@dataclass(eq=False)
class FleetReplica:
    """A replica, with the load that the edge expects: what was reported, and what was sent there since."""

    report: ReplicaReport
    load: float
    suspected_s: float | None = None
    """When a connection to the replica failed. It gets no requests until it has answered a later poll."""

    @property
    def is_suspect(self) -> bool:
        return self.suspected_s is not None

    def suspect(self) -> None:
        """Marks the replica as suspect: a connection to it has failed."""
        self.suspected_s = time.monotonic()

    @property
    def id(self) -> str:
        return self.report.id

    @contextmanager
    def busier(self) -> Iterator[None]:
        """Adds one request to the load while the context is open, since the last report does not include it."""
        self.load += 1
        try:
            yield
        finally:
            self.load = max(0.0, self.load - 1)


class ModelFleet:
    """The replicas of one model. They are polled twice a second, in the background of all requests."""

    def __init__(
        self,
        name: str,
        source: ReplicaSource,
        cold_start_s: float,
        max_waiting: int,
        description: Mapping[str, Any] | None = None,
        presets: Sequence[dict[str, Any]] = (),
    ) -> None:
        """`description` is what `/v1/models` says while there is no replica that could be asked, and `presets` what
        `/v1/audio/voices` does."""
        self.name = name
        self.waiting = 0
        self.description: Mapping[str, Any] = description or {}
        self.presets = presets
        self.on_come: Callable[[FleetReplica], None] = lambda replica: None
        """Called with each replica that is new."""
        self._source = source
        self._cold_start_s, self._max_waiting = cold_start_s, max_waiting
        self._replicas: dict[str, FleetReplica] = {}
        self._last_report: ReplicaReport | None = None
        self._changed = asyncio.Condition()
        self._waking: asyncio.Task[None] | None = None
        self._waking_s = 0.0
        self._polls: set[asyncio.Task[None]] = set()
        self._failure: RhapsodeError | None = None

    @property
    def replicas(self) -> Sequence[FleetReplica]:
        """The replicas that can get requests now."""
        return [replica for replica in self._replicas.values() if not replica.is_suspect]

    def progress(self) -> dict[str, Any]:
        """Returns whether the model is loaded, and for how long it has been loading, as `/v1/models` shows it."""
        if self.replicas:
            return {"status": "loaded"}
        since_s = self._source.loading_since_s or (self._waking_s if self._waking is not None else None)
        if since_s is None:
            return {"status": "unloaded"}
        return {"status": "loading", "loading_s": round(time.monotonic() - since_s, 1)}

    @property
    def known(self) -> ReplicaReport | None:
        """The last report of any replica, which may be old: what a checkpoint can do does not change."""
        return self._last_report

    def find(self, replica_id: str) -> FleetReplica | None:
        return self._replicas.get(replica_id)

    async def candidates(self, key: str | None) -> list[FleetReplica]:
        """Returns the replicas that a request may go to, the best first. If there is none, waits for one."""
        if not self.replicas:
            await self._wait_for_one()
        return in_order(self.replicas, key)

    def poll_soon(self) -> None:
        """Asks all replicas for their state, once the caller has gone on."""
        poll = asyncio.create_task(self.poll(), name="poll-replicas")
        self._polls.add(poll)
        poll.add_done_callback(self._polls.discard)

    async def poll(self) -> None:
        """Asks all replicas for their state."""
        asked_s = time.monotonic()
        reports = await self._source.reports()
        if reports is not None:
            await self.update(reports, asked_s)

    async def update(self, reports: Sequence[ReplicaReport], asked_s: float) -> None:
        """Stores the states that replicas reported when they were asked at `asked_s`."""
        before, self._replicas = self._replicas, {}
        for report in reports:
            replica = before.get(report.id) or FleetReplica(report, 0.0)
            replica.report, replica.load = report, float(report.load)
            if replica.suspected_s is not None and replica.suspected_s < asked_s:  # else it answered before it died
                replica.suspected_s = None
            self._replicas[report.id] = replica
            self._last_report = report
            if report.id not in before:
                self.on_come(replica)
        async with self._changed:
            self._changed.notify_all()

    async def _wait_for_one(self) -> None:
        if self.waiting >= self._max_waiting:
            raise Busy(f"{self.waiting} requests wait until '{self.name}' is loaded, and no more can.", retry_after_s=5)
        self.waiting += 1
        if self._waking is None:
            self._waking_s = time.monotonic()
            self._waking = asyncio.create_task(self._wake(), name="wake-model")
        try:
            async with asyncio.timeout(self._cold_start_s), self._changed:
                await self._changed.wait_for(lambda: bool(self.replicas) or self._failure is not None)
        except TimeoutError:
            waited = f"it has been loading for {time.monotonic() - self._waking_s:.0f} s"
            raise Unavailable(f"'{self.name}' was not loaded within {self._cold_start_s:g} s: {waited}.") from None
        finally:
            self.waiting -= 1
        if not self.replicas and self._failure is not None:
            raise self._failure

    async def _wake(self) -> None:
        """Asks for a first replica. If none can be started, the waiting requests fail at once."""
        self._failure = None
        try:
            async with asyncio.timeout(self._cold_start_s):
                if await self._source.wake():
                    await self.poll()
                else:
                    self._failure = Unavailable(f"no replica of '{self.name}' could be started.")
        except TimeoutError:
            return
        except RhapsodeError as error:
            self._failure = error
        finally:
            self._waking = None
        async with self._changed:
            self._changed.notify_all()


class Fleet:
    """All models of the cluster, in their order."""

    def __init__(self, models: Mapping[str, ModelFleet]) -> None:
        self.models = models
        self._polling: asyncio.Task[Any] | None = None

    def start(self) -> None:
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll_all(), name="fleet")

    async def stop(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.wait((self._polling,))

    def find(self, replica_id: str) -> FleetReplica | None:
        found = (model.find(replica_id) for model in self.models.values())
        return next((replica for replica in found if replica is not None), None)

    def all(self) -> list[tuple[str, FleetReplica]]:
        return [(name, replica) for name, model in self.models.items() for replica in model.replicas]

    async def _poll_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for model in self.models.values():
                group.create_task(_keep_polling(model))


async def _keep_polling(model: ModelFleet) -> None:
    while True:
        try:
            await model.poll()
        except Exception:
            log.exception("the replicas of a model could not be asked", extra={"fields": {"model": model.name}})
        await asyncio.sleep(POLL_S)
