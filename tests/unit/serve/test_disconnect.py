"""Work for a client that disconnects is cancelled, in the task that does it."""

import asyncio

import pytest

from rhapsode.serve.response.audio import cancel_when_lost


class Connection:
    def __init__(self) -> None:
        self.callback = None

    def when_lost(self, callback) -> None:
        self.callback = callback


def test_work_is_cancelled_when_the_connection_is_lost_and_nothing_is_raised() -> None:
    async def run() -> None:
        connection, cleaned = Connection(), []

        async def work() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                cleaned.append(1)

        task = asyncio.create_task(cancel_when_lost(connection.when_lost, work()))
        await asyncio.sleep(0)
        connection.callback()
        await task
        assert cleaned == [1]
        assert connection.callback is None
        assert not task.cancelling()

    asyncio.run(run())


def test_a_cancel_from_elsewhere_is_passed_on() -> None:
    async def run() -> None:
        connection = Connection()
        task = asyncio.create_task(cancel_when_lost(connection.when_lost, asyncio.sleep(60)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert connection.callback is None

    asyncio.run(run())


def test_errors_of_the_work_are_raised() -> None:
    async def run() -> None:
        async def work() -> None:
            raise ValueError("wrong")

        with pytest.raises(ValueError, match="wrong"):
            await cancel_when_lost(Connection().when_lost, work())

    asyncio.run(run())
