"""A server collects garbage rarely: so what a request leaves behind must be freed with its last reference."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from rhapsode.config import resolve
from rhapsode.engine import Speech
from rhapsode.engine.job import Job
from rhapsode.models.registry import find
from rhapsode.serve.garbage import THRESHOLDS
from rhapsode.serve.host import Host
from rhapsode.types import AudioChunk, SpeechRequest


@pytest.fixture
def collector() -> Iterator[None]:
    """Leaves the garbage collector as it was."""
    before, debug = gc.get_threshold(), gc.get_debug()
    yield
    gc.set_threshold(*before)
    gc.set_debug(debug)
    gc.garbage.clear()
    gc.enable()


@pytest.mark.usefixtures("collector")
def test_no_request_waits_for_a_collection_to_be_freed() -> None:
    limits = {"max_concurrency": 2, "max_queue": 20, "max_positions": 256}
    deployment = resolve(env={}, flags={"model": "dummy", "device": "cpu", "limits": limits})

    async def run() -> None:
        served = Host(find("dummy"), deployment, lambda outcome: None)
        async with served.lease() as engine:
            assert gc.isenabled()
            assert gc.get_threshold() == THRESHOLDS
            gc.collect()
            gc.disable()
            gc.set_debug(gc.DEBUG_SAVEALL)
            for number in range(8):
                speech = await engine.submit(SpeechRequest("Hi."), f"heard-{number}")
                assert [chunk async for chunk in speech]
                (await engine.submit(SpeechRequest("A longer text, and it is not heard."), f"left-{number}")).abort()
            del speech
            await asyncio.sleep(0.1)
            gc.collect()
            kept = [type(thing).__name__ for thing in gc.garbage if isinstance(thing, Speech | Job | AudioChunk)]
            assert not kept
        await served.stop()

    asyncio.run(run())
