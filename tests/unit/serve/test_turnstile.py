"""Requests that arrive together begin a few at a time: what else the event loop has to do comes in between."""

import asyncio

import pytest

from rhapsode.serve.middleware.turnstile import MOST, Turnstile

COUNT = 100


class Crowd:
    """Requests that pass a turnstile; notes who began in which turn of the event loop."""

    def __init__(self):
        self.turn, self.began = 0, []
        self._through = Turnstile(self._begin)

    async def _begin(self, scope, receive, send):
        self.began.append((self.turn, scope["number"]))

    def ask(self, number):
        return asyncio.create_task(self._through({"type": "http", "number": number}, None, None))

    async def count_turns(self):
        while True:
            await asyncio.sleep(0)
            self.turn += 1


@pytest.fixture
def crowd():
    return Crowd()


async def served(crowd, requests):
    counting = asyncio.create_task(crowd.count_turns())
    await asyncio.gather(*requests(), return_exceptions=True)
    counting.cancel()
    return crowd.began


def test_few_begin_in_one_turn_and_in_order(crowd):
    async def run():
        return await served(crowd, lambda: [crowd.ask(i) for i in range(COUNT)])

    began = asyncio.run(run())
    assert [number for _, number in began] == list(range(COUNT))
    turns = [turn for turn, _ in began]
    assert max(turns.count(turn) for turn in set(turns)) == MOST
    assert turns[-1] <= COUNT // MOST + 2  # no turn is without any


def test_one_does_not_wait(crowd):
    async def run():
        crowd.ask(0)
        await asyncio.sleep(0)
        return list(crowd.began)

    assert [number for _, number in asyncio.run(run())] == [0]


def test_an_event_loop_that_ends_in_the_middle_of_a_turn_leaves_nobody_waiting(crowd):
    async def end_early():
        await asyncio.gather(*(crowd.ask(i) for i in range(MOST)))

    async def run():
        await asyncio.wait_for(served(crowd, lambda: [crowd.ask(i) for i in range(COUNT)]), 5)

    for number in range(3):
        asyncio.run(end_early())
        assert len(crowd.began) == (number + 1) * MOST
    asyncio.run(run())
    assert len(crowd.began) == 3 * MOST + COUNT


def test_who_is_cancelled_while_it_waits_holds_up_nobody(crowd):
    async def run():
        tasks = [crowd.ask(i) for i in range(COUNT)]
        await asyncio.sleep(0)
        for task in tasks[MOST:-1]:
            task.cancel()
        began = await served(crowd, lambda: tasks)
        again = [crowd.ask(i) for i in range(COUNT, COUNT + 3)]
        await asyncio.gather(*again)
        return began

    assert [number for _, number in asyncio.run(run())] == [*range(MOST), COUNT - 1, *range(COUNT, COUNT + 3)]
