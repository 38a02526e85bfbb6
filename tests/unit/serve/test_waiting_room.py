"""While a model loads, the requests of one client leave room for those of others: in a server, and at an edge."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rhapsode.edge.fleet import ModelFleet
from rhapsode.edge.report import ReplicaReport
from rhapsode.errors import Busy, Unavailable
from rhapsode.serve.host import Host
from rhapsode.serve.waiting_room import WaitingRoom
from unit.serve.test_host import host

PLACES = 4
Wait = Callable[[str], Awaitable[object]]


async def check_shares(wait: Wait, let_in: Callable[[], None]) -> None:
    """One client takes all places; others get in, and it gets nothing more."""
    greedy = [asyncio.ensure_future(wait("greedy")) for _ in range(PLACES)]
    await asyncio.sleep(0)
    with pytest.raises(Busy):
        await wait("greedy")
    honest = [asyncio.ensure_future(wait(client)) for client in ("b", "c")]
    await asyncio.sleep(0.01)
    assert [task.done() for task in (*greedy, *honest)] == [False, False, True, True, False, False]
    greedy[0].cancel()
    await asyncio.sleep(0)
    late = asyncio.ensure_future(wait("greedy"))
    await asyncio.sleep(0)
    let_in()
    ended = await asyncio.gather(*greedy, *honest, late, return_exceptions=True)
    assert [isinstance(result, Busy) for result in ended] == [False, False, True, True, False, False, False]
    assert [isinstance(result, asyncio.CancelledError) for result in ended] == [True] + [False] * 6


def test_in_a_full_room_the_client_with_most_gives_way() -> None:
    async def run() -> None:
        room, loaded = WaitingRoom(PLACES), asyncio.Event()
        await check_shares(lambda client: room.wait(client, loaded.wait()), loaded.set)
        assert not len(room)

    asyncio.run(run())


def test_a_failure_to_load_is_everybody_s() -> None:
    async def run() -> None:
        async def fail() -> None:
            raise Unavailable("broken.")

        with pytest.raises(Unavailable):
            await WaitingRoom(1).wait("a", fail())

    asyncio.run(run())


def test_a_server_shares_the_places_of_requests_that_wait_for_its_model(monkeypatch) -> None:
    async def run() -> None:
        loaded = asyncio.Event()

        async def load(served: Host) -> object:
            return await loaded.wait()

        monkeypatch.setattr(Host, "_load", load)
        served = host()
        served._waiting = WaitingRoom(PLACES)
        await check_shares(served.engine, loaded.set)

    asyncio.run(run())


def test_an_edge_shares_the_places_of_requests_that_wait_for_a_replica() -> None:
    async def run() -> None:
        class Source:
            loading_since_s = None

            def __init__(self) -> None:
                self.loaded = asyncio.Event()

            async def reports(self) -> list[ReplicaReport]:
                return [ReplicaReport("a", "http://127.0.0.1:9", 0, 4, ("low",), True)]

            async def wake(self) -> bool:
                return await self.loaded.wait()

        source = Source()
        fleet = ModelFleet("dummy", source, cold_start_s=30, max_waiting=PLACES)
        await check_shares(lambda client: fleet.candidates(None, client), source.loaded.set)
        assert not fleet.waiting

    asyncio.run(run())
