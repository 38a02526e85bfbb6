"""Sends the requests of one level of load and collects the responses."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace

from rhapsode.bench.serve.client import SpeechClient, TimedResponse
from rhapsode.bench.serve.lag import LagMeter
from rhapsode.bench.serve.load_level import LoadLevel, poisson

Send = Callable[[int, float | None], Coroutine[None, None, TimedResponse]]
"""Sends the request of this number, due at this moment or now."""


@dataclass(frozen=True)
class LoadResult:
    """The responses to one level of load."""

    load: LoadLevel
    responses: tuple[TimedResponse, ...]
    wall_s: float
    client: dict[str, float | bool]


async def apply_load(
    load: LoadLevel,
    numbers: Sequence[int],
    client: SpeechClient,
    texts: Sequence[str],
    seed: int,
    advance: Callable[[], None],
) -> LoadResult:
    """Sends the requests of these numbers. A number decides the text and the seed of its request."""

    async def send(i: int, due_s: float | None = None) -> TimedResponse:
        sent_s = time.perf_counter() - started_s
        response = await client.request(texts[i % len(texts)], seed + i, due_s)
        advance()
        return replace(response, sent_s=sent_s)

    pattern = {"closed": _closed, "open": _open, "first burst": _burst, "burst": _burst}[load.kind]
    async with LagMeter() as meter:
        started_s = time.perf_counter()
        responses = await pattern(load, numbers, send, seed)
        wall_s = time.perf_counter() - started_s
    return LoadResult(load, tuple(responses), wall_s, meter.as_dict())


async def _closed(load: LoadLevel, numbers: Sequence[int], send: Send, seed: int) -> list[TimedResponse]:
    """Each client sends its next request when its last one is complete and its pause is over."""
    todo = iter(numbers)
    rng = random.Random(f"pauses {load.level} {seed}")

    async def send_later(i: int) -> TimedResponse:
        if load.pause_s:
            await asyncio.sleep(rng.uniform(0, load.pause_s))
        return await send(i, None)

    async def one_client() -> list[TimedResponse]:
        return [await send_later(i) for i in todo]

    by_client = await asyncio.gather(*(one_client() for _ in range(min(len(numbers), int(load.level)))))
    return [response for responses in by_client for response in responses]


async def _open(load: LoadLevel, numbers: Sequence[int], send: Send, seed: int) -> list[TimedResponse]:
    """Requests arrive at random moments, however busy the server is."""
    started_s = time.perf_counter()

    async def arrive(i: int, after_s: float) -> TimedResponse:
        await asyncio.sleep(max(0.0, started_s + after_s - time.perf_counter()))
        return await send(i, started_s + after_s)

    arrivals = poisson(load.level, len(numbers), seed)
    return list(await asyncio.gather(*(arrive(i, after_s) for i, after_s in zip(numbers, arrivals, strict=True))))


async def _burst(load: LoadLevel, numbers: Sequence[int], send: Send, seed: int) -> list[TimedResponse]:
    """So many requests at the same moment; the next burst when all are complete."""
    size = int(load.level)
    responses: list[TimedResponse] = []
    for first in range(0, len(numbers), size):
        due_s = time.perf_counter()
        responses += await asyncio.gather(*(send(i, due_s) for i in numbers[first : first + size]))
    return responses
