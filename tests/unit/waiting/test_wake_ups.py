"""Listeners that are woken together cost one call into their event loop."""

import asyncio
import threading

from rhapsode.waiting.wake_ups import WakeUps, held


def test_many_wake_ups_are_one_call_into_the_event_loop(monkeypatch):
    async def run():
        loop = asyncio.get_running_loop()
        calls, call = [], loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *given: calls.append(given) or call(*given))
        wake_ups, futures = WakeUps.here(), [loop.create_future() for _ in range(100)]
        waker = threading.Thread(target=lambda: [wake_ups.wake(future) for future in futures])
        waker.start()
        waker.join()
        assert len(calls) == 1
        await asyncio.wait_for(asyncio.gather(*futures), 5)
        late = loop.create_future()
        wake_ups.wake(late)
        await asyncio.wait_for(late, 5)
        assert len(calls) == 2

    asyncio.run(run())


def test_who_has_stopped_waiting_is_left_alone():
    async def run():
        loop = asyncio.get_running_loop()
        gone, waits = loop.create_future(), loop.create_future()
        for future in (gone, waits):
            WakeUps.here().wake(future)
        gone.cancel()
        await asyncio.wait_for(waits, 5)
        assert gone.cancelled()
        assert waits.done()

    asyncio.run(run())


def test_an_event_loop_that_is_closed_wakes_nobody():
    async def waiting():
        return WakeUps.here(), asyncio.get_running_loop().create_future()

    wake_ups, future = asyncio.run(waiting())
    for _ in range(2):
        wake_ups.wake(future)
    assert not future.done()


def test_every_event_loop_has_its_own():
    async def here():
        assert WakeUps.here() is WakeUps.here()
        return WakeUps.here()

    assert asyncio.run(here()) is not asyncio.run(here())


def test_wake_ups_that_are_held_go_together_at_the_end(monkeypatch):
    async def run():
        loop = asyncio.get_running_loop()
        calls, call = [], loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *given: calls.append(given) or call(*given))
        wake_ups, futures = WakeUps.here(), [loop.create_future() for _ in range(10)]
        with held():
            for future in futures:
                wake_ups.wake(future)
                await asyncio.sleep(0)
            assert not calls
        assert len(calls) == 1
        await asyncio.wait_for(asyncio.gather(*futures), 5)
        wake_ups.wake(loop.create_future())
        assert len(calls) == 2

    asyncio.run(run())
