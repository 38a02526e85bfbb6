"""Sends the requests of one level of load and collects the responses."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace

from rhapsode.bench.serve.client import SpeechClient, TimedResponse
from rhapsode.bench.serve.lag import LagMeter
from rhapsode.bench.serve.load_level import LoadLevel, Share, poisson

Send = Callable[[int, float | None], Coroutine[None, None, TimedResponse]]
"""Sends the request with this number; it is due at the given moment, or now."""


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
    share: Share | None = None,
) -> LoadResult:
    """Sends the requests with these numbers, or a share of them. The number decides a request's text and seed."""
    share = share or Share()

    async def send(i: int, due_s: float | None = None) -> TimedResponse:
        sent_s = time.perf_counter() - started_s
        refusals: list[float] = []
        response = await client.request(texts[i % len(texts)], seed + i, due_s)
        while response.retry_after_s is not None and len(refusals) < load.retries:
            refusals.append(response.retry_after_s)
            await asyncio.sleep(response.retry_after_s)
            response = await client.request(texts[i % len(texts)], seed + i)
        advance()
        return replace(response, sent_s=sent_s, refusals=tuple(refusals))

    pattern = {"closed": _closed, "open": _open, "first burst": _burst, "burst": _burst}[load.kind]
    if share.begins_s is not None:
        await _wait_until(share.begins_s)
    async with LagMeter() as meter:
        started_s = time.perf_counter() if share.begins_s is None else share.begins_s
        responses = await pattern(load, numbers, send, seed, share, started_s)
        wall_s = time.perf_counter() - started_s
    return LoadResult(load, tuple(responses), wall_s, meter.as_dict())


async def _wait_until(moment_s: float) -> None:
    await asyncio.sleep(max(0.0, moment_s - time.perf_counter()))


async def _closed(
    load: LoadLevel, numbers: Sequence[int], send: Send, seed: int, share: Share, started_s: float
) -> list[TimedResponse]:
    """Each client sends its next request when its last one is complete and its pause is over."""
    clients = len(share.part(range(min(len(numbers), int(load.level)))))
    todo = iter(share.part(numbers))
    rng = random.Random(f"pauses {load.level} {seed} {share.index}")

    async def send_later(i: int) -> TimedResponse:
        if load.pause_s:
            await asyncio.sleep(rng.uniform(0, load.pause_s))
        return await send(i, None)

    async def one_client() -> list[TimedResponse]:
        return [await send_later(i) for i in todo]

    by_client = await asyncio.gather(*(one_client() for _ in range(clients)))
    return [response for responses in by_client for response in responses]


async def _open(
    load: LoadLevel, numbers: Sequence[int], send: Send, seed: int, share: Share, started_s: float
) -> list[TimedResponse]:
    """Requests arrive at random moments, however busy the server is."""

    async def arrive(i: int, after_s: float) -> TimedResponse:
        await _wait_until(started_s + after_s)
        return await send(i, started_s + after_s)

    arrivals = share.part(poisson(load.level, len(numbers), seed))
    due = zip(share.part(numbers), arrivals, strict=True)
    return list(await asyncio.gather(*(arrive(i, after_s) for i, after_s in due)))


async def _burst(
    load: LoadLevel, numbers: Sequence[int], send: Send, seed: int, share: Share, started_s: float
) -> list[TimedResponse]:
    """Sends `level` requests at the same moment, and the next burst when all of them are complete."""
    size, due_s = int(load.level), started_s
    responses: list[TimedResponse] = []
    for first in range(0, len(numbers), size):
        due_s = time.perf_counter() if first else started_s
        responses += await asyncio.gather(*(send(i, due_s) for i in share.part(numbers[first : first + size])))
    return responses
