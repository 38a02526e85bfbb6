"""The process of one model, as the process of the whole server sees it."""

from __future__ import annotations

import asyncio
import logging
import subprocess
from collections.abc import Callable
from typing import Any

from rhapsode.config import Deployment
from rhapsode.errors import Unavailable
from rhapsode.pool.messages import CannotLoad, End, Leave, Serve, Serving, Stays
from rhapsode.serve.observe.log_lines import MODEL
from rhapsode.serve.process.heartbeat import Heartbeat
from rhapsode.serve.process.link import Link
from rhapsode.serve.process.spawn import spawn
from rhapsode.serve.server import LAST_BYTES_S

log = logging.getLogger("rhapsode.pool")

CHILD = "rhapsode.pool.child"


class ModelServer:
    """Starts the process, follows its state, and ends it. To be used in one event loop."""

    def __init__(self, name: str, deployment: Deployment, on_change: Callable[[], None]) -> None:
        """`name` is for the lines that it logs. `on_change` is called when the process says how it is, and when it has
        ended."""
        self.state: Serving | None = None
        """What the process said last; None before the model is loaded, and after the process has ended."""
        self._on_change = on_change
        self._patience_s = deployment.server.drain_timeout_s + 3 * LAST_BYTES_S
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._stays: asyncio.Future[bool] | None = None
        self._gone = asyncio.Event()
        self._heartbeat = Heartbeat(deployment.server.engine_silence_s, self._silent)
        self._heartbeat.start()
        spawned = spawn(CHILD, {MODEL: name})
        self._process = spawned.process
        self._link = Link(spawned.end, self._received, self._closed)
        self._link.read_in_loop()
        self._link.send(Serve(deployment))

    @property
    def has_ended(self) -> bool:
        return self._gone.is_set()

    async def ready(self) -> None:
        """Waits until the model is loaded; raises the error if it cannot be."""
        await asyncio.shield(self._ready)

    async def leave(self) -> bool:
        """Ends the process, unless it is in use; returns whether it has ended."""
        if not self.has_ended:
            self._stays = asyncio.get_running_loop().create_future()
            self._link.send(Leave())
            if await self._stays:
                return False
        await self._ended()
        return True

    async def end(self, *, at_once: bool = False) -> None:
        """Ends the process once it has finished what runs, or at once."""
        if not self._gone.is_set():
            if self.state is None or at_once:
                self._process.kill()
            else:
                self._link.send(End())
            await self._ended()

    async def _ended(self) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                await self._gone.wait()
                await asyncio.to_thread(self._process.wait, LAST_BYTES_S)
        except (TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    def _silent(self, allowed_s: float) -> None:
        log.error("the process of a model has said nothing for %g s: it is ended", allowed_s)
        self._process.kill()

    def _received(self, messages: list[Any]) -> None:
        self._heartbeat.heard()
        for message in messages:
            match message:
                case Serving():
                    self.state = message
                    if not self._ready.done():
                        self._heartbeat.loaded()
                        _settle(self._ready)
                case CannotLoad(error):
                    _settle(self._ready, error)
                case Stays():
                    self._answered(stays=True)
        self._on_change()

    def _closed(self) -> None:
        self.state = None
        self._gone.set()
        _settle(self._ready, Unavailable("the process of the model ended while it was loaded."))
        self._heartbeat.stop()
        self._answered(stays=False)
        self._on_change()

    def _answered(self, *, stays: bool) -> None:
        """Ends the wait for an answer to `Leave`, if somebody waits."""
        if self._stays is not None and not self._stays.done():
            self._stays.set_result(stays)


def _settle(future: asyncio.Future[None], error: Exception | None = None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
        future.exception()  # it was looked at, also if nobody waits
