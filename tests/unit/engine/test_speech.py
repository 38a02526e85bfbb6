import asyncio
import threading
import time

import numpy as np
import pytest

from rhapsode.engine.speech import Speech
from rhapsode.errors import GenerationFailed
from rhapsode.types import AudioChunk, FinishReason, Outcome

DONE = Outcome("r", FinishReason.STOP, 0.1, 1, 0.0, 0.0, 0.1)


class Nobody:
    def abort(self, request_id): ...


def speech():
    return Speech("r", 8000, 1, Nobody(), max_unread_s=0.001)


def chunk(index=0):
    return AudioChunk(np.full((1, 4), index, np.float32), 8000, index)


def test_chunks_come_out_in_order_and_then_it_is_over():
    one = speech()
    for i in range(3):
        one.push(chunk(i))
    one.end(DONE, None)
    assert [c.index for c in one] == [0, 1, 2]
    assert one.get() is None


def test_a_failure_is_raised_after_what_was_said_before_it():
    one = speech()
    one.push(chunk())
    one.end(DONE, GenerationFailed("broken"))
    assert one.get().index == 0
    with pytest.raises(GenerationFailed, match="broken"):
        one.get()
    with pytest.raises(GenerationFailed, match="broken"):
        one.get()


def test_waiting_times_out():
    with pytest.raises(TimeoutError):
        speech().get(timeout_s=0.01)


def test_an_async_listener_is_woken_from_another_thread():
    one = speech()

    def say():
        for i in range(5):
            time.sleep(0.002)
            one.push(chunk(i))
        one.end(DONE, None)

    async def listen():
        threading.Thread(target=say).start()
        return [c.index async for c in one]

    assert asyncio.run(listen()) == list(range(5))


def test_a_listener_whose_event_loop_is_gone_disturbs_nobody():
    one = speech()

    async def give_up():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(one.get_async(), 0.01)

    asyncio.run(give_up())
    one.push(chunk(1))
    assert one.get().index == 1


def test_it_is_full_while_more_than_the_limit_waits():
    one = speech()
    one.push(chunk())
    assert not one.full  # 0.5 ms
    one.push(chunk(1))
    assert one.full
    one.get()
    assert not one.full
