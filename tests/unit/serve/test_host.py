"""The model is loaded once, let go of when idle, and not taken away from who uses it."""

import asyncio

import pytest

from rhapsode.config import resolve
from rhapsode.errors import CheckpointError, Unavailable
from rhapsode.models.registry import Model, find
from rhapsode.serve.host import Host
from rhapsode.types import SpeechRequest

SMALL = {"max_concurrency": 2, "max_queue": 1, "max_positions": 256}


def host(model: str = "dummy", told: list | None = None, **server) -> Host:
    deployment = resolve(env={}, flags={"model": model, "device": "cpu", "limits": SMALL, "server": server})
    outcomes = [] if told is None else told
    return Host(find(model), deployment, outcomes.append)


def test_many_who_ask_at_once_load_once() -> None:
    async def run() -> None:
        loads = []
        served = host()
        served._on_load = lambda: loads.append(1)

        async def use() -> int:
            async with served.lease() as engine:
                return id(engine)

        assert len(set(await asyncio.gather(use(), use(), use()))) == 1
        assert loads == [1]
        assert served.warm
        assert served.info.voices == ("low", "high")
        await served.stop()
        with pytest.raises(Unavailable):
            await use()

    asyncio.run(run())


def test_warming_up_is_nobody_s_request() -> None:
    told: list = []

    async def run() -> None:
        served = host(told=told)
        await served.start()
        async with served.lease() as engine:
            assert not told
            async for _ in await engine.submit(SpeechRequest("Hi."), "mine"):
                pass
        await served.stop()

    asyncio.run(run())
    assert [outcome.request_id for outcome in told] == ["mine"]


@pytest.mark.parametrize(("at_start", "expected"), [(None, 2), (False, 0), (True, 2)])
def test_words_that_are_expected_while_the_model_loads_are_there_after_each_load(
    monkeypatch: pytest.MonkeyPatch, at_start: bool | None, expected: int
) -> None:
    loads: list = []
    monkeypatch.setattr("rhapsode.serve.host.load_aligner", loads.append)

    async def run() -> None:
        flags = {"model": "dummy", "device": "cpu", "limits": SMALL, "alignment": {"at_start": at_start}}
        served = Host(find("dummy"), resolve(env={}, flags=flags))
        starting = asyncio.create_task(served.start())
        await asyncio.sleep(0)
        served.expect_words()
        await starting
        served.expect_words()
        await served._unload()
        await served.engine()
        assert len(loads) == len(set(loads)) == expected
        await served.stop()

    asyncio.run(run())


def test_an_idle_model_goes_and_returns_but_never_under_a_user() -> None:
    async def run() -> None:
        served = host(idle_unload_s=0.1)
        await served.start()
        async with served.lease() as engine:
            await asyncio.sleep(0.4)
            assert served.readings().loaded
            async for _ in await engine.submit(SpeechRequest("Hello."), "mine"):
                pass
        for _ in range(100):
            await asyncio.sleep(0.05)
            if not served.readings().loaded:
                break
        gone = served.readings()
        assert (gone.loaded, gone.load.slots, gone.load.slots_in_use, gone.requests_in_flight) == (False, 2, 0, 0)
        assert gone.totals.frames >= 6
        async with served.lease():
            assert served.readings().loaded
            assert served.readings().totals.frames > gone.totals.frames  # the warm-up of the second load counts on
        await served.stop()

    asyncio.run(run())


def test_who_stops_waiting_stops_nobody_else() -> None:
    async def run() -> None:
        served = host()

        async def use() -> bool:
            async with served.lease() as engine:
                return engine is not None

        impatient, patient = asyncio.create_task(use()), asyncio.create_task(use())
        await asyncio.sleep(0)
        impatient.cancel()
        assert await patient
        assert served.busy == 0
        await served.stop()

    asyncio.run(run())


def test_a_model_that_cannot_be_loaded_says_why_and_may_be_tried_again() -> None:
    async def run() -> None:
        deployment = resolve(env={}, flags={"model": "qwen3-tts", "device": "cpu", "limits": SMALL})
        served = Host(Model(find("qwen3-tts").spec, None, {}), deployment)
        for _ in range(2):
            with pytest.raises(CheckpointError):
                await served.start()
            assert isinstance(served.error, CheckpointError)
        assert not served.warm
        await served.stop()

    asyncio.run(run())
