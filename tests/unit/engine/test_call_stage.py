"""Stages that call a function: on a thread of their own, or where the work arrives if it is quick."""

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import NamedTuple

import pytest

from rhapsode.engine.bell import Bell
from rhapsode.engine.call_stage import CallStage
from rhapsode.engine.job import Job
from rhapsode.engine.loop import Loop
from rhapsode.engine.stage import TurnStage, Work
from rhapsode.errors import GenerationFailed, InvalidRequest, RhapsodeError
from rhapsode.models.base import Traits
from rhapsode.types import SpeechRequest
from rhapsode.waiting.wake_ups import held


class Called(NamedTuple):
    payload: str
    thread: str


Results = SimpleQueue[Called]


class Function:
    """Quick for payloads that say so; refuses bad ones."""

    def __init__(self) -> None:
        self.looked_ahead: list[list[str]] = []

    def traits(self) -> Traits:
        return Traits(is_quick=self.is_quick, look_ahead=self.look_ahead)

    def look_ahead(self, payloads: list[str]) -> None:
        self.looked_ahead.append(payloads)
        if any("ugly" in payload for payload in payloads):
            raise ValueError("not a text.")

    def __call__(self, payload: str) -> Called:
        if "bad" in payload:
            raise InvalidRequest("this is bad.")
        return Called(payload, threading.current_thread().name)

    def is_quick(self, payload: str) -> bool:
        return payload.startswith("quick")


class Listened(Job):
    failed: RhapsodeError | None = None

    def fail(self, error: RhapsodeError) -> None:
        self.failed = error


def job() -> Listened:
    return Listened("one", SpeechRequest("Hello."), 24_000, on_over=lambda _: None, on_free=lambda _: None)


@pytest.fixture
def results() -> Results:
    return SimpleQueue()


@pytest.fixture
def function() -> Function:
    return Function()


@pytest.fixture
def stage(results: Results, function: Function) -> Iterator[CallStage]:
    stage = CallStage("call", function, workers=1, batch=1)
    stage.outbox.payload_to.append(lambda work: results.put(work.payload))
    stage.start()
    yield stage
    stage.stop()


def test_quick_work_is_done_where_it_arrives(stage: CallStage, results: Results) -> None:
    stage.receive(Work(job(), "quick"))
    assert results.get_nowait() == Called("quick", threading.current_thread().name)


def test_other_work_is_done_on_a_thread_of_the_stage(stage: CallStage, results: Results) -> None:
    stage.receive(Work(job(), "slow"))
    assert results.get(timeout=10) == Called("slow", "rhapsode-call-0")


def test_quick_work_that_fails_fails_alone(stage: CallStage, results: Results) -> None:
    bad = job()
    stage.receive(Work(bad, "quick and bad"))
    stage.receive(Work(job(), "quick"))
    assert isinstance(bad.failed, InvalidRequest)
    assert results.get_nowait().payload == "quick"
    assert results.empty()


def test_quick_work_of_a_job_that_is_over_is_not_done(stage: CallStage, results: Results) -> None:
    gone = job()
    gone.over = True
    stage.receive(Work(gone, "quick"))
    assert results.empty()


class Brings(TurnStage):
    """A stage of a device loop that sends work to another in its first turn."""

    def __init__(self, to: CallStage) -> None:
        super().__init__("device", Bell())
        self._to, self._work = to, [Work(job(), "quick")]

    def turn(self) -> bool:
        if self._work:
            self._to.receive(self._work.pop())
        return False

    def jobs(self) -> list[Job]:
        return []


def test_a_device_loop_does_not_even_do_what_is_quick(stage: CallStage, results: Results) -> None:
    brings = Brings(stage)
    loop = Loop("device", brings.bell, [brings])
    loop.start()
    try:
        assert results.get(timeout=10) == Called("quick", "rhapsode-call-0")
    finally:
        loop.stop()


def test_work_that_comes_together_is_looked_at_together(stage: CallStage, results: Results, function: Function) -> None:
    with held():
        for payload in ("quick a", "quick b", "quick c"):
            stage.receive(Work(job(), payload))
        assert results.empty()
    assert [results.get_nowait().payload for _ in range(3)] == ["quick a", "quick b", "quick c"]
    assert function.looked_ahead == [["quick a", "quick b", "quick c"]]


def test_nothing_is_looked_at_ahead_for_one_alone(stage: CallStage, results: Results, function: Function) -> None:
    with held():
        stage.receive(Work(job(), "quick"))
    assert results.get_nowait().payload == "quick"
    assert function.looked_ahead == []


@pytest.mark.parametrize("wrong", ["quick and bad", "quick and ugly"])
def test_what_is_wrong_with_one_is_its_own_matter(stage: CallStage, results: Results, wrong: str) -> None:
    one, other = job(), job()
    with held():
        stage.receive(Work(one, wrong))
        stage.receive(Work(other, "quick"))
    heard = [results.get_nowait().payload for _ in range(results.qsize())]
    assert heard[-1] == "quick"
    assert other.failed is None
    assert (one.failed is None) == (heard[0] == wrong)


def test_what_the_next_stage_cannot_take_fails_alone(stage: CallStage, results: Results) -> None:
    def refuse(work: Work) -> None:
        if "odd" in work.payload.payload:
            raise TypeError("not a prompt.")

    stage.outbox.payload_to.insert(0, refuse)
    odd, other = job(), job()
    with held():
        stage.receive(Work(odd, "quick and odd"))
        stage.receive(Work(other, "quick"))
    assert isinstance(odd.failed, GenerationFailed)
    assert other.failed is None
    assert results.get_nowait().payload == "quick"
