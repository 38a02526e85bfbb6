"""What an edge believes of replicas: reports of replicas that died meanwhile."""

import asyncio

from rhapsode.edge.fleet import ModelFleet
from rhapsode.edge.report import ReplicaReport

REPORT = ReplicaReport("a", "http://127.0.0.1:9", 0, 4, ("low",), True)


class SlowSource:
    """Its replicas answer when they are told to."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def reports(self) -> list[ReplicaReport]:
        await self.may_answer.wait()
        return [REPORT]

    async def wake(self) -> bool:
        return True


def test_a_replica_that_died_after_it_reported_stays_suspect_until_it_is_asked_again() -> None:
    async def scenario() -> None:
        source = SlowSource()
        fleet = ModelFleet("dummy", source, cold_start_s=5, max_waiting=1)
        source.may_answer.set()
        await fleet.poll()
        (replica,) = await fleet.candidates(None)
        source.may_answer.clear()
        asked_before = asyncio.create_task(fleet.poll())
        await asyncio.sleep(0)
        replica.suspect()  # a request could not reach it
        source.may_answer.set()
        await asked_before
        assert fleet.replicas == []
        await fleet.poll()
        assert fleet.replicas == [replica]

    asyncio.run(scenario())
