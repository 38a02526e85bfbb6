"""Long work of one client delays nobody else's: threads, places in the line, and the texts of an engine."""

import asyncio
import gc
import socket
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from rhapsode.errors import Busy
from rhapsode.serve.fair_threads import FairThreads
from rhapsode.serve.local_engine import TEXT_THREADS_EACH, LocalEngine, text_threads
from rhapsode.serve.process.child import EngineChild
from rhapsode.serve.process.messages import Abort, Accepted, Refused, Submit
from rhapsode.types import SpeechRequest

LONG = "A sentence that is longer than what the event loop reads itself. " * 4
WAIT_S = 20


class Gate:
    """Work that takes until it is let go."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.began: list[str] = []

    def work(self, name: str) -> str:
        self.began.append(name)
        assert self.open.wait(WAIT_S)
        return name


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open.set()


@pytest.fixture
def threads() -> Iterator[FairThreads]:
    made = FairThreads("tests", "tests", threads=3, each=2, waiting=4)
    yield made
    made.close()


def test_a_client_has_its_threads_at_most_and_others_start_at_once(threads: FairThreads, gate: Gate) -> None:
    first = [threads.submit("a", gate.work, f"a{number}") for number in range(4)]
    assert threads.submit("b", lambda: "b").result(WAIT_S) == "b"
    assert gate.began == ["a0", "a1"]
    gate.open.set()
    assert [future.result(WAIT_S) for future in first] == ["a0", "a1", "a2", "a3"]


def test_in_a_full_line_the_client_with_most_gives_way_and_is_refused_itself(threads: FairThreads, gate: Gate) -> None:
    held = [threads.submit("a", gate.work, f"a{number}") for number in range(6)]
    with pytest.raises(Busy):
        threads.submit("a", gate.work, "a6")
    others = [threads.submit(name, gate.work, name) for name in ("b", "c")]
    with pytest.raises(Busy):
        held[-1].result(WAIT_S)
    gate.open.set()
    assert [future.result(WAIT_S) for future in (*held[:-1], *others)] == ["a0", "a1", "a2", "a3", "a4", "b", "c"]


def test_what_is_cancelled_leaves_the_line_and_never_runs(threads: FairThreads, gate: Gate) -> None:
    held = [threads.submit("a", gate.work, f"a{number}") for number in range(6)]
    assert all(future.cancel() for future in held[2:])
    late = threads.submit("a", gate.work, "late")
    gate.open.set()
    assert late.result(WAIT_S) == "late"
    assert gate.began == ["a0", "a1", "late"]


def test_an_error_is_the_caller_s(threads: FairThreads) -> None:
    with pytest.raises(ZeroDivisionError):
        threads.submit("a", lambda: 1 // 0).result(WAIT_S)
    assert threads.submit("a", lambda: 1).result(WAIT_S) == 1


def test_nothing_keeps_what_was_sent(threads: FairThreads) -> None:
    class Sent:
        def read(self) -> int:
            return 1

    sent = Sent()
    gone = weakref.ref(sent)
    gc.disable()
    try:
        assert threads.submit("a", sent.read).result(WAIT_S) == 1
        threads.close()
        del sent
        assert gone() is None
    finally:
        gc.enable()


class StandIn:
    """An engine that reads texts as fast as a gate lets it."""

    def __init__(self, gate: Gate) -> None:
        limits = SimpleNamespace(slots=4, max_queue=28)
        self.deployment = SimpleNamespace(limits=limits, alignment=SimpleNamespace(end_detection=False))
        self.alignment = SimpleNamespace(is_loaded=True)
        self.submitted: list[str] = []
        self.aborted: list[str] = []
        self._gate = gate

    def read(self, request: SpeechRequest) -> SpeechRequest:
        if request.text.startswith("slow"):
            self._gate.work(request.text)
        return request

    script = read

    def submit(self, script: SpeechRequest, request_id: str, *about: Any, client: str = "") -> str:
        self.submitted.append(request_id)
        return request_id

    def abort(self, request_id: str) -> None:
        self.aborted.append(request_id)

    def stop(self) -> None: ...


def test_long_texts_of_one_client_delay_neither_others_nor_what_else_runs_in_threads(gate: Gate) -> None:
    async def run() -> None:
        engine: Any = StandIn(gate)
        served = LocalEngine(engine)
        slow = [
            asyncio.create_task(served.submit(SpeechRequest(f"slow {number} {LONG}"), f"a{number}", "a"))
            for number in range(24)
        ]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(served.submit(SpeechRequest(LONG), "b", "b"), WAIT_S) == "b"
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), WAIT_S) == 1
        assert len(gate.began) == TEXT_THREADS_EACH
        for task in slow[TEXT_THREADS_EACH:]:
            task.cancel()
        gate.open.set()
        await asyncio.gather(*slow[:TEXT_THREADS_EACH])
        await served.stop()
        assert engine.submitted == ["b", "a0"]

    asyncio.run(run())


def test_so_it_is_in_the_engine_s_process_and_an_aborted_text_is_never_read(gate: Gate) -> None:
    ours, theirs = socket.socketpair()
    child: Any = EngineChild(theirs)
    engine: Any = StandIn(gate)
    told: list[Any] = []
    answered: dict[str, Future[Any]] = {}

    def send(message: Any) -> None:
        told.append(message)
        if message.request_id in answered:
            answered[message.request_id].set_result(message)

    child._link.send = send
    child._engine, child._texts = engine, text_threads(engine)
    try:
        for number in range(33):
            child._take(Submit(f"a{number}", SpeechRequest(f"slow {number} {LONG}"), "a"))
        answered["b"] = Future()
        child._take(Submit("b", SpeechRequest(LONG), "b"))
        assert isinstance(answered["b"].result(WAIT_S), Accepted)
        child._take(Submit("c", SpeechRequest(f"slow c {LONG}"), "a"))
        assert isinstance(told[-1], Accepted | Refused)
        assert [message.request_id for message in told if isinstance(message, Refused)] == ["c"]
        for number in range(1, 33):
            child._take(Abort(f"a{number}"))
        assert len(gate.began) == TEXT_THREADS_EACH
        answered["a0"] = Future()
        gate.open.set()
        answered["a0"].result(WAIT_S)
        child._texts.close()
        assert sorted(engine.submitted) == ["a0", "b"]
        assert not child._reading
    finally:
        gate.open.set()
        child._texts.close()
        with suppress(OSError):
            ours.close()
            theirs.close()
