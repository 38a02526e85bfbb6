"""A silent process is noticed after so many beats, whatever clocks do in between."""

import asyncio
import socket
import threading

import pytest

from rhapsode.serve.process.heartbeat import BEATS, LOADING_S, Heartbeat
from rhapsode.serve.process.link import Link


def beats_until_silent(heart: Heartbeat) -> int:
    beats = 1
    while not heart.beat():
        beats += 1
    return beats


def test_a_process_that_is_not_heard_for_five_beats_is_silent() -> None:
    heart = Heartbeat(5.0, lambda seconds: None)
    heart.loaded()
    assert beats_until_silent(heart) == BEATS + 1
    heart.heard()
    assert beats_until_silent(heart) == BEATS + 1


def test_a_process_that_loads_may_be_silent_for_longer() -> None:
    heart = Heartbeat(5.0, lambda seconds: None)
    assert heart.every_s == 1.0
    assert beats_until_silent(heart) == LOADING_S + 1


def test_a_process_that_is_heard_now_and_then_is_never_silent() -> None:
    heart = Heartbeat(5.0, lambda seconds: None)
    heart.loaded()
    for _ in range(100):
        assert not any(heart.beat() for _ in range(BEATS))
        heart.heard()


def test_silence_is_told_once_and_a_stopped_heart_tells_nothing() -> None:
    async def beat() -> list[float]:
        told: list[float] = []
        heart, stopped = (Heartbeat(0.05, told.append) for _ in range(2))
        for each in (heart, stopped):
            each.start()
            each.loaded()
        stopped.stop()
        await asyncio.sleep(0.5)
        return told

    assert asyncio.run(beat()) == [0.05]


@pytest.mark.parametrize("full", [False, True])
def test_a_connection_is_cut_though_the_other_end_neither_reads_nor_leaves(full: bool) -> None:
    async def cut() -> bool:
        ours, theirs = socket.socketpair()
        with theirs:
            closed = threading.Event()
            link = Link(ours, lambda messages: None, closed.set)
            link.read_in_loop()
            for _ in range(50 if full else 0):
                link.wake(bytes(100_000))
            link.cut()
            await asyncio.sleep(0.1)
            await asyncio.to_thread(link.close)
            await asyncio.sleep(0)
            return closed.is_set()

    assert asyncio.run(asyncio.wait_for(cut(), 20))
