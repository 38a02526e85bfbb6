"""Measures the CPU time of every callback of an event loop: the debug mode of the server.

While one callback runs, no other client is served. CPU time is measured, not wall time, so that the load of other
processes does not count.
"""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio.events import Handle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rhapsode.serve.observe.metrics import Metrics

SLOW_S = 0.020

log = logging.getLogger("rhapsode.serve")

_plain_run = Handle._run
_recorded: dict[asyncio.AbstractEventLoop, Metrics] = {}


@contextmanager
def measured(loop: asyncio.AbstractEventLoop, metrics: Metrics) -> Iterator[None]:
    """Records callbacks of this loop that take longer than `SLOW_S`; the loop must be asyncio's own, not uvloop's."""
    _recorded[loop] = metrics
    Handle._run = _measured_run  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del _recorded[loop]
        if not _recorded:
            Handle._run = _plain_run  # type: ignore[method-assign]


def _measured_run(handle: Any) -> None:
    metrics = _recorded.get(handle._loop)
    if metrics is None:
        _plain_run(handle)
        return
    started_s = time.thread_time()
    _plain_run(handle)
    spent_s = time.thread_time() - started_s
    if spent_s > SLOW_S:
        origin = _origin(handle._callback)
        metrics.slow_callback(origin, spent_s)
        log.warning("a callback blocked the event loop", extra={"fields": {"origin": origin, "cpu_s": spent_s}})


def _origin(callback: Any) -> str:
    """Returns the name of a callback; for a task, the chain of its coroutines down to the one that is suspended."""
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return str(getattr(callback, "__qualname__", callback.__class__.__qualname__))
    names = []
    coroutine: Any = task.get_coro()
    while (name := getattr(coroutine, "__qualname__", None)) is not None:
        names.append(name)
        coroutine = getattr(coroutine, "cr_await", None)
    return " > ".join(names[:1] + names[1:][-3:])
