"""Stages that call a function: on a thread of their own, or where the work arrives if it is quick."""

import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue
from typing import NamedTuple

import pytest

from rhapsode.engine import call_stage
from rhapsode.engine.call_stage import CallStage
from rhapsode.engine.job import Job
from rhapsode.engine.stage import Work
from rhapsode.errors import InvalidRequest, RhapsodeError
from rhapsode.types import SpeechRequest


class Called(NamedTuple):
    payload: str
    thread: str


Results = SimpleQueue[Called]


class Function:
    """Quick for payloads that say so; refuses bad ones."""

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
def stage(results: Results) -> Iterator[CallStage]:
    stage = CallStage("call", Function(), workers=1, batch=1)
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


class Held:
    """Works only once it may."""

    def __init__(self) -> None:
        self.may = threading.Event()

    def __call__(self, payload: str) -> str:
        self.may.wait(10)
        return payload


@pytest.fixture
def held() -> Iterator[CallStage]:
    stage = CallStage("held", Held(), workers=1, batch=1)
    stage.start()
    yield stage
    stage._function.may.set()
    stage.stop()


def test_who_brings_few_works_does_not_wait(held: CallStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_stage, "MOST_S", 10.0)
    for _ in range(call_stage.MANY - 1):
        held.receive(Work(job(), "one"))
    started_s = time.monotonic()
    held.catch_up()
    assert time.monotonic() - started_s < 5


def test_who_brings_many_waits_until_they_are_on_their_way(held: CallStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_stage, "MOST_S", 10.0)
    for _ in range(3 * call_stage.MANY):
        held.receive(Work(job(), "one"))
    release = threading.Timer(0.05, held._function.may.set)
    release.start()
    held.catch_up()
    assert held._function.may.is_set()
    assert len(held.inbox) <= 1
    release.join()


def test_a_stage_that_is_stuck_keeps_nobody_waiting_for_long(held: CallStage) -> None:
    for _ in range(3 * call_stage.MANY):
        held.receive(Work(job(), "one"))
    started_s = time.monotonic()
    held.catch_up()
    assert time.monotonic() - started_s < 5
    assert len(held.inbox) >= call_stage.MANY
