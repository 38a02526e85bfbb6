"""Puts a level of load on a server and collects what was heard."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass

from rhapsode.bench.serve.client import Heard, Listener
from rhapsode.bench.serve.lag import LagMeter
from rhapsode.bench.serve.schedule import Load, poisson

One = Callable[[int, float | None], Coroutine[None, None, Heard]]
"""Sends the request of this number, due at this moment or now."""


@dataclass(frozen=True)
class Loaded:
    """What came of one level of load."""

    load: Load
    heard: tuple[Heard, ...]
    wall_s: float
    client: dict[str, float | bool]


async def put_load(
    load: Load, count: int, listener: Listener, texts: Sequence[str], seed: int, tick: Callable[[], None]
) -> Loaded:
    """Send `count` requests the way this load sends them."""

    async def one(i: int, due_s: float | None = None) -> Heard:
        heard = await listener.hear(texts[i % len(texts)], seed + i, due_s)
        tick()
        return heard

    send = {"closed": _closed, "open": _open, "burst": _burst}[load.kind]
    async with LagMeter() as meter:
        started_s = time.perf_counter()
        heard = await send(load, count, one, seed)
        wall_s = time.perf_counter() - started_s
    return Loaded(load, tuple(heard), wall_s, meter.as_dict())


async def _closed(load: Load, count: int, one: One, seed: int) -> list[Heard]:
    """So many listeners, each of whom asks again as soon as it has heard the last word."""
    todo = iter(range(count))

    async def listen() -> list[Heard]:
        return [await one(i, None) for i in todo]

    by_listener = await asyncio.gather(*(listen() for _ in range(min(count, int(load.level)))))
    return [heard for listened in by_listener for heard in listened]


async def _open(load: Load, count: int, one: One, seed: int) -> list[Heard]:
    """Strangers: each comes when it comes, however busy the server is."""
    started_s = time.perf_counter()

    async def arrive(i: int, after_s: float) -> Heard:
        await asyncio.sleep(max(0.0, started_s + after_s - time.perf_counter()))
        return await one(i, started_s + after_s)

    arrivals = poisson(load.level, count, seed)
    return list(await asyncio.gather(*(arrive(i, after_s) for i, after_s in enumerate(arrivals))))


async def _burst(load: Load, count: int, one: One, seed: int) -> list[Heard]:
    """All at once, as often as it takes."""
    size = int(load.level)
    heard: list[Heard] = []
    for first in range(0, count, size):
        due_s = time.perf_counter()
        heard += await asyncio.gather(*(one(i, due_s) for i in range(first, min(first + size, count))))
    return heard
