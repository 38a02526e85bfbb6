"""Messages between a server and its engine's process: all of them, in order, whoever sends them."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from rhapsode.alignment.words import BookmarkTime, WordTime
from rhapsode.errors import Busy, CheckpointError
from rhapsode.serve.process import link as links
from rhapsode.serve.process import packing
from rhapsode.serve.process.link import Link
from rhapsode.serve.process.messages import Ended, Refused, SpokenChunk, Submit
from rhapsode.types import AudioChunk, FinishReason, Outcome, Sampling, SpeechRequest, Voice
from rhapsode.waiting.wake_ups import held

WAIT_S = 20


class End:
    """One end of a link, with all that it was sent."""

    def __init__(self, end: socket.socket) -> None:
        self.batches: SimpleQueue[list] = SimpleQueue()
        self.closed = threading.Event()
        self.link = Link(end, self.batches.put, self.closed.set)
        self.link.read_in_thread()

    def get(self, count: int) -> list:
        got: list = []
        while len(got) < count:
            got += self.batches.get(timeout=WAIT_S)
        return got


@contextmanager
def linked() -> Iterator[tuple[End, End]]:
    here, there = (End(end) for end in socket.socketpair())
    try:
        yield here, there
    finally:
        here.link.close()
        there.link.close()


def test_a_message_arrives_as_it_was_sent() -> None:
    request = SpeechRequest(
        "Hello.",
        Voice(embedding=(0.5, 0.25)),
        sampling=Sampling(temperature=0.5),
        options=MappingProxyType({"x": 1}),
        lexicon=MappingProxyType({"a": "b"}),
    )
    busy = Busy("full.", retry_after_s=2.5)
    broken = CheckpointError("wrong.", details=["one", "two"])
    outcome = Outcome("a", FinishReason.FAILED, 1.0, 2, 0.0, None, 3.0, error=broken)
    with linked() as (here, there):
        here.link.send(Submit("a", request, "ada"), Refused("b", busy), Ended(outcome, broken))
        submit, refused, ended = there.get(3)
    assert submit == Submit("a", request, "ada")
    assert (refused.error.message, refused.error.retry_after_s) == ("full.", 2.5)
    assert ended.outcome.error is ended.error
    assert ended.error.details == ("one", "two")


@pytest.mark.parametrize("as_pcm16", [False, True])
def test_chunks_keep_their_samples_bit_for_bit(as_pcm16: bool) -> None:
    numbers = np.random.default_rng(0).integers(-32768, 32767, (2, 999), np.int16)
    samples = (numbers / 32768).astype(np.float32) if as_pcm16 else np.random.rand(2, 999).astype(np.float32)
    words = (WordTime("Hi", 0.1, 0.2, 0, 2),)
    sent = AudioChunk(
        samples, 24_000, 7, 1.5, False, 2, words, (BookmarkTime("m", 0.3, 1),), numbers if as_pcm16 else None
    )
    with linked() as (here, there):
        here.link.send(SpokenChunk.of("a", sent))
        got = there.get(1)[0].chunk()
    np.testing.assert_array_equal(got.samples, sent.samples)
    assert (got.pcm16 is not None) == as_pcm16
    got.samples[0, 0] = 0.0  # a listener may write into its samples
    about = [(c.sample_rate, c.index, c.pace, c.is_pause, c.speaker, c.words, c.bookmarks) for c in (sent, got)]
    assert about[0] == about[1]


def test_what_many_threads_send_arrives_once_and_in_the_order_of_each() -> None:
    """Large and small messages, more than the connection takes at once, from threads that hold some of them back."""
    count, senders = 300, 4

    def send(link: Link, sender: int) -> None:
        random = np.random.default_rng(sender)
        number = 0
        while number < count:
            batch = min(count - number, int(random.integers(1, 9)))
            with held():
                for _ in range(batch):
                    link.send((sender, number, bytes(int(random.integers(0, 40_000)))))
                    number += 1

    with linked() as (here, there):
        threads = [threading.Thread(target=send, args=(here.link, sender)) for sender in range(senders)]
        for thread in threads:
            thread.start()
        got = there.get(senders * count)
        for thread in threads:
            thread.join(WAIT_S)
    for sender in range(senders):
        assert [message[1] for message in got if message[0] == sender] == list(range(count))


@pytest.mark.parametrize("blocks", [True, False])
def test_a_full_connection_keeps_no_sender_waiting(blocks: bool) -> None:
    """Whether its socket blocks or not: uvloop makes those that it reads non-blocking."""
    ours, theirs = socket.socketpair()
    here = End(ours)
    ours.setblocking(blocks)
    for number in range(200):
        here.link.send((number, bytes(100_000)))  # nobody reads
    there = End(theirs)
    assert [number for number, _ in there.get(200)] == list(range(200))
    here.link.close()
    there.link.close()


def test_arrays_arrive_whole_through_a_full_connection_and_can_be_changed() -> None:
    ours, theirs = socket.socketpair()
    here, random = End(ours), np.random.default_rng(0)
    sent = [random.integers(-9, 9, size, np.int16) for size in random.integers(0, 60_000, 400)]
    sent += [np.zeros(0, np.float32), np.ones((3, 50), np.float32)[:, ::2]]  # empty, and not in one piece
    here.link.send(*sent[:3])
    here.link.send(*sent[3:])
    there = End(theirs)
    got = there.get(len(sent))
    assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(sent, got, strict=True))
    assert all(array.flags.writeable for array in got)
    here.link.close()
    there.link.close()


def test_all_that_was_sent_before_the_end_arrives() -> None:
    with linked() as (here, there):
        for number in range(50):
            here.link.send((number, bytes(50_000)))
        here.link.close()
        assert [number for number, _ in there.get(50)] == list(range(50))
        assert there.closed.wait(WAIT_S)


def test_what_cannot_be_sent_is_the_sender_s_error_and_nobody_else_s() -> None:
    with linked() as (here, there):
        with pytest.raises((TypeError, AttributeError)):
            here.link.send(threading.Lock())
        here.link.send("next")
        assert there.get(1) == ["next"]


def test_few_messages_are_sent_without_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    made_by: list[str] = []
    packed = links.packed
    monkeypatch.setattr(links, "packed", lambda sent: made_by.append(threading.current_thread().name) or packed(sent))
    with linked() as (here, there):
        here.link.send(*range(links.MANY))
        there.get(links.MANY)
        here.link.send(*range(100))
        there.get(100)
    assert set(made_by[1:]) == {"rhapsode-link-out"}
    assert made_by[0] == threading.current_thread().name
    assert len(made_by) == 1 + -(-100 // links.MANY)


def test_messages_of_one_turn_of_an_event_loop_go_together() -> None:
    async def send_some(link: Link) -> None:
        for number in range(3):
            link.send(number)
        await asyncio.sleep(0)

    with linked() as (here, there):
        asyncio.run(send_some(here.link))
        assert there.batches.get(timeout=WAIT_S) == [0, 1, 2]


def test_another_thread_does_not_overtake_the_event_loop() -> None:
    async def send_some(link: Link) -> None:
        link.send("submit")
        other = threading.Thread(target=link.send, args=("abort",))
        other.start()
        other.join()

    with linked() as (here, there):
        asyncio.run(send_some(here.link))
        assert there.get(2) == ["submit", "abort"]


def test_an_event_loop_reads_all_that_arrives_and_learns_of_the_end() -> None:
    """More than the connection takes at once, while the loop has other work, and the other end leaves."""
    ours, theirs = socket.socketpair()
    sent = [(number, np.full(number * 50, number, np.int16)) for number in range(600)]

    async def listen() -> list:
        got: list = []
        over = asyncio.Event()
        link = Link(ours, got.extend, over.set)
        link.read_in_loop()
        there = Link(theirs, lambda messages: None, lambda: None)
        sender = threading.Thread(target=lambda: ([there.send(message) for message in sent], there.close()))
        sender.start()
        while not over.is_set():
            time.sleep(0.001)  # the loop is busy
            await asyncio.sleep(0)
        sender.join()
        await asyncio.to_thread(link.close)
        return got

    got = asyncio.run(asyncio.wait_for(listen(), WAIT_S))
    assert [number for number, _ in got] == list(range(600))
    assert all(np.array_equal(array, sent[number][1]) for number, array in got)


def test_an_event_loop_that_closes_its_end_learns_of_it_once() -> None:
    ours, theirs = socket.socketpair()
    there = End(theirs)

    async def close() -> list[str]:
        closed: list[str] = []
        link = Link(ours, lambda messages: None, lambda: closed.append("closed"))
        link.read_in_loop()
        link.send("last")
        await asyncio.to_thread(link.close)
        await asyncio.sleep(0)
        return closed

    assert asyncio.run(close()) == ["closed"]
    assert there.get(1) == ["last"]
    assert there.closed.wait(WAIT_S)
    there.link.close()


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_messages_that_arrive_in_pieces_are_put_together(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "ROOM", size)
    ours, theirs = socket.socketpair()
    sent = ["a", np.arange(500), ("b", np.zeros(0, np.float32)), "c"]
    with ours, theirs:
        inflow, got = packing.Inflow(theirs), list[Any]()
        ours.sendall(b"".join([*packing.packed(sent[:3]), *packing.packed(sent[3:])]))
        while len(got) < 4:
            got += inflow.read() or ()
        ours.shutdown(socket.SHUT_WR)
        assert inflow.read() is None
    assert got[0] == "a"
    assert np.array_equal(got[1], np.arange(500))
    assert got[2][1].size == 0
    assert got[3] == "c"


def test_what_a_full_connection_does_not_take_is_returned() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        parts = packing.packed([bytes(1_000_000)])
        rest = packing.send_now(ours, parts)
        left = sum(map(len, rest))
        assert 0 < left < 1_000_000
        assert packing.send_now(ours, rest) != []  # it is still full
        theirs.close()
        with pytest.raises(OSError, match="Broken pipe"):
            packing.send_now(ours, rest)
