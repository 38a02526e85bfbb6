"""Rules for families that make their frames in bursts: padding, isolation, aborts, order, back-pressure."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from rhapsode.engine import Engine
from rhapsode.engine.burst_batch import Candidate
from rhapsode.errors import Aborted, GenerationFailed
from rhapsode.models.base import Measured, traits_of
from rhapsode.testing.sources import maker_of, method_of, replace_method, source_of
from rhapsode.testing.subject import Subject, assert_all_free, hear, speak
from rhapsode.types import Samples, SpeechRequest

WAIT_S = 20.0
DECOY = 3
"""The text that is launched first, alone, while those of a crowd arrive."""


def launches_of(engine: Engine) -> tuple[str, ...]:
    """The methods of the worker that are launched, in order."""
    return ("measure", "burst") if traits_of(maker_of(engine)).measure is not None else ("burst",)


@pytest.fixture
def alone(subject: Subject, engine: Engine) -> list[Samples]:
    return [speak(engine, subject.request(text, seed=seed)) for seed, text in enumerate(subject.texts)]


def requests_of(subject: Subject) -> list[SpeechRequest]:
    return [subject.request(text, seed=seed) for seed, text in enumerate(subject.texts)]


@contextmanager
def together(engine: Engine, monkeypatch: pytest.MonkeyPatch, decoy: SpeechRequest, count: int) -> Iterator[None]:
    """Holds up a launch of the decoy until `count` requests that are submitted meanwhile wait for theirs."""
    stage: Any = engine.pipeline.stages[source_of(engine).name]
    name, entered = launches_of(engine)[0], threading.Event()
    real = method_of(engine, name)

    def held(*given: Any) -> Any:
        if not entered.is_set():
            entered.set()
            give_up_s = time.monotonic() + WAIT_S
            while len(stage.inbox) < count and time.monotonic() < give_up_s:
                time.sleep(0.001)
        return real(*given)

    replace_method(engine, monkeypatch, name, held)
    speech = engine.submit(decoy)
    assert entered.wait(WAIT_S)
    yield
    hear(speech)


def count_rows(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes how many prompts each launch has that makes frames."""
    worker, counts = maker_of(engine), list[int]()
    real = worker.burst

    def counted(prompts: Sequence[Any], *rest: Any) -> Any:
        counts.append(len(prompts))
        return real(prompts, *rest)

    monkeypatch.setattr(worker, "burst", counted)
    return counts


def prompt_of(given: Any) -> Any:
    return given.prompt if isinstance(given, Measured) else given


class TestBatches:
    kinds = frozenset({"burst"})

    def test_prompts_of_all_lengths_in_one_launch_sound_as_alone(
        self, subject: Subject, alone: list[Samples], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Candidate, "bucket", property(lambda self: (self.is_measured, 1)))
        engine = subject.engine(limits={"max_concurrency": 8})
        counts, requests = count_rows(engine, monkeypatch), requests_of(subject)
        with together(engine, monkeypatch, requests[DECOY], len(requests)):
            speeches = [engine.submit(request) for request in requests]
        for speech, expected in zip(speeches, alone, strict=True):
            assert subject.same(hear(speech), expected)
        assert max(counts) == len(requests)
        assert_all_free(engine)
        engine.stop()

    def test_a_long_text_sounds_the_same_for_every_ring_and_among_others(self, subject: Subject) -> None:
        request = subject.request(" ".join(subject.texts * 2))
        heard = []
        for chunks in ({}, {"first": 1, "largest": 2, "ring": 3}, {"largest": 64, "ring": 200}):
            engine = subject.engine(chunks=chunks)
            heard += [hear(speech) for speech in [engine.submit(request) for _ in range(3)]]
            assert_all_free(engine)
            engine.stop()
        assert all(subject.same(one, heard[0]) for one in heard)

    def test_nothing_is_made_ahead_of_a_listener_who_does_not_read(
        self, subject: Subject, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        request = subject.request(" ".join(subject.texts * 3))
        whole = speak(engine, request)
        narrow = subject.engine(chunks={"largest": 4, "ring": 5}, limits={"max_unread_s": 0.1})
        counts = count_rows(narrow, monkeypatch)
        speech = narrow.submit(request)
        settled = [-1]
        while settled[-1] != sum(counts) or not settled[-1]:
            settled.append(sum(counts))
            time.sleep(0.1)
        others = [hear(narrow.submit(request)) for request in requests_of(subject)]
        made_for_others = sum(counts) - settled[-1]
        assert all(samples.shape[1] for samples in others)
        assert subject.same(hear(speech), whole)
        if sum(counts) - made_for_others > 4:  # the text has so many prompts
            assert settled[-1] <= (sum(counts) - made_for_others) // 2
        assert_all_free(narrow)
        narrow.stop()


class TestBurstFailures:
    kinds = frozenset({"burst"})

    @pytest.mark.parametrize("launch", ["measure", "burst"])
    def test_a_prompt_reported_as_bad_fails_alone(
        self, subject: Subject, alone: list[Samples], monkeypatch: pytest.MonkeyPatch, launch: str
    ) -> None:
        engine = subject.engine(limits={"max_concurrency": 8})
        worker, requests, bad = maker_of(engine), requests_of(subject), list[Any]()
        if launch not in launches_of(engine):
            engine.stop()
            pytest.skip("one launch does everything here")
        monkeypatch.setattr(Candidate, "bucket", property(lambda self: (self.is_measured, 1)))
        size, real = worker.size, getattr(worker, launch)

        def first_is_bad(prompt: Any) -> int:
            bad.extend([prompt] if len(bad) == 1 else [])
            bad.extend([None] if not bad else [])  # the decoy
            return int(size(prompt))

        def faulty(prompts: Sequence[Any], *rest: Any) -> Any:
            if len(bad) > 1 and any(prompt_of(each) is bad[1] for each in prompts):
                raise GenerationFailed("this prompt is bad")
            return real(prompts, *rest)

        monkeypatch.setattr(worker, "size", first_is_bad)
        replace_method(engine, monkeypatch, launch, faulty)
        with together(engine, monkeypatch, requests[DECOY], len(requests)):
            speeches = [engine.submit(request) for request in requests]
        errors = list[str]()
        for speech, expected in zip(speeches, alone, strict=True):
            try:
                assert subject.same(hear(speech), expected)
            except GenerationFailed as error:
                errors.append(error.message)
        assert errors == ["this prompt is bad"]
        assert_all_free(engine)
        engine.stop()

    @pytest.mark.parametrize("launch", ["measure", "burst"])
    def test_a_crash_of_a_launch_fails_what_was_in_it_and_nothing_after_it(
        self, subject: Subject, alone: list[Samples], monkeypatch: pytest.MonkeyPatch, launch: str
    ) -> None:
        engine = subject.engine()
        if launch not in launches_of(engine):
            engine.stop()
            pytest.skip("one launch does everything here")

        def crash(*given: Any) -> None:
            raise ZeroDivisionError("bad luck")

        with monkeypatch.context() as patch:
            replace_method(engine, patch, launch, crash)
            with pytest.raises(GenerationFailed, match="stage failed"):
                speak(engine, requests_of(subject)[0])
        assert_all_free(engine)
        for request, expected in zip(requests_of(subject), alone, strict=True):
            assert subject.same(speak(engine, request), expected)
        engine.stop()

    @pytest.mark.parametrize("number", [1, 2])
    @pytest.mark.parametrize("launch", ["measure", "burst"])
    def test_a_request_may_be_aborted_while_it_is_launched(
        self, subject: Subject, alone: list[Samples], monkeypatch: pytest.MonkeyPatch, launch: str, number: int
    ) -> None:
        engine = subject.engine(limits={"max_concurrency": 1})
        if launch not in launches_of(engine):
            engine.stop()
            pytest.skip("one launch does everything here")
        calls, abort = list[int](), list[Callable[[], None]]()
        worker = maker_of(engine)
        real, submitted = getattr(worker, launch), threading.Event()

        def aborted(*given: Any) -> Any:
            calls.append(0)
            if len(calls) == number:
                assert submitted.wait(WAIT_S)
                abort[0]()
            return real(*given)

        with monkeypatch.context() as patch:
            patch.setattr(worker, launch, aborted)
            speech = engine.submit(subject.request(" ".join(subject.texts)))
            abort.append(speech.abort)
            submitted.set()
            next_one = engine.submit(requests_of(subject)[0])
            try:
                hear(speech)
            except Aborted:
                assert len(calls) >= number
            assert subject.same(hear(next_one), alone[0])
        assert_all_free(engine)
        engine.stop()

    def test_output_that_is_not_finite_is_an_error(
        self, subject: Subject, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worker = maker_of(engine)
        if not worker.frame_dtype.is_floating_point:
            pytest.skip("these frames are whole numbers")
        real = worker.burst
        with monkeypatch.context() as patch:
            patch.setattr(worker, "burst", lambda *given: [frames * np.nan for frames in real(*given)])
            with pytest.raises(GenerationFailed, match="not finite"):
                speak(engine, subject.request(subject.texts[0]))
        assert_all_free(engine)
