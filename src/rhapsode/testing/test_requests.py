"""What holds for every request, whatever the family's pipeline: repetition, neighbours, aborts, failures, admission."""

import contextlib
import random
import threading
import time
from typing import Any

import numpy as np
import pytest

from rhapsode.engine import Engine
from rhapsode.errors import Aborted, Busy, GenerationFailed, InvalidRequest, Unavailable
from rhapsode.testing.subject import LONG, Subject, assert_all_free, hear, outcome_of, speak
from rhapsode.types import FinishReason


class TestRepeatability:
    def test_a_seed_repeats(self, subject: Subject, engine: Engine) -> None:
        first = speak(engine, subject.request(subject.texts[1]))
        assert subject.same(first, speak(engine, subject.request(subject.texts[1])))

    def test_another_seed_sounds_different(self, subject: Subject, engine: Engine) -> None:
        first = speak(engine, subject.request(subject.texts[1], seed=1))
        other = speak(engine, subject.request(subject.texts[1], seed=2))
        assert not subject.same(first, other)

    def test_audio_is_finite_and_not_silent(self, subject: Subject, engine: Engine) -> None:
        for text in subject.texts:
            samples = speak(engine, subject.request(text))
            assert np.isfinite(samples).all()
            assert np.abs(samples).max() > 1e-3

    def test_slot_reuse_leaks_nothing(self, subject: Subject) -> None:
        engine = subject.engine(limits={"max_concurrency": 1})
        order = (0, 2, 1, 2, 0) if LONG else (0, 2, 0)
        alone = {i: speak(engine, subject.request(subject.texts[i])) for i in sorted(set(order))}
        for i in order:
            assert subject.same(speak(engine, subject.request(subject.texts[i])), alone[i])
        engine.stop()

    def test_a_slot_left_midway_leaks_nothing(self, subject: Subject) -> None:
        engine = subject.engine(limits={"max_concurrency": 1})
        alone = speak(engine, subject.request(subject.texts[0]))
        for text in subject.texts:
            speech = engine.submit(subject.request(text, seed=99))
            speech.get()
            speech.abort()
            assert subject.same(speak(engine, subject.request(subject.texts[0])), alone)
        engine.stop()


class TestNeighbours:
    def test_batch_neighbours_change_nothing(self, subject: Subject, engine: Engine) -> None:
        texts = subject.texts * 3 if LONG else [*subject.texts, *subject.texts[:2]]  # more than there are slots
        requests = [subject.request(text, seed=i) for i, text in enumerate(texts)]
        alone = [speak(engine, request) for request in requests]
        together = [engine.submit(request) for request in requests]
        for speech, expected in zip(together, alone, strict=True):
            assert subject.same(hear(speech), expected)
        assert_all_free(engine)

    def test_a_slow_listener_does_not_stall_others(self, subject: Subject, engine: Engine) -> None:
        slow = engine.submit(subject.request(subject.texts[2]))
        for _ in range(3):
            for text in subject.texts:
                speak(engine, subject.request(text))
        assert_all_free(engine)  # the slow one's slot, too, though nobody has listened yet
        assert hear(slow).shape[1] > 0

    def test_random_joins_leaves_and_aborts_leave_no_trace(self, subject: Subject) -> None:
        engine = subject.engine(limits={"max_concurrency": 3, "max_queue": 64})
        rng = random.Random(5)
        alone = {text: speak(engine, subject.request(text)) for text in subject.texts}
        waiting = []
        for _ in range(30 if LONG else 12):
            text = rng.choice(subject.texts)
            speech = engine.submit(subject.request(text))
            waiting.append((text, speech))
            if rng.random() < 0.5:
                time.sleep(rng.random() * 0.01)
            if rng.random() < 0.4:
                waiting.pop(rng.randrange(len(waiting)))[1].abort()
        for text, speech in waiting:
            assert subject.same(hear(speech), alone[text])
        assert_all_free(engine)
        engine.stop()


class TestAbort:
    def test_while_it_is_queued(self, subject: Subject) -> None:
        engine = subject.engine(limits={"max_concurrency": 1})
        running = engine.submit(subject.request(subject.texts[2]))
        queued = engine.submit(subject.request(subject.texts[0]))
        queued.abort()
        with pytest.raises(Aborted):
            hear(queued)
        assert hear(running).shape[1] > 0
        assert_all_free(engine)
        engine.stop()

    @pytest.mark.parametrize("chunks", [0, 1, 2, 3])
    def test_after_some_chunks(self, subject: Subject, engine: Engine, chunks: int) -> None:
        speech = engine.submit(subject.request(" ".join(subject.texts)))
        heard = [speech.get() for _ in range(min(chunks, 2))]
        speech.abort()
        speech.abort()
        assert len(heard) == min(chunks, 2)
        assert_all_free(engine)

    def test_after_it_has_ended_changes_nothing(self, subject: Subject, engine: Engine) -> None:
        speech = engine.submit(subject.request(subject.texts[0]))
        hear(speech)
        speech.abort()
        assert outcome_of(speech).finish_reason == FinishReason.STOP
        assert_all_free(engine)

    def test_at_random_moments(self, subject: Subject, engine: Engine) -> None:
        rng = random.Random(11)
        alone = speak(engine, subject.request(subject.texts[1]))
        for _ in range(20):
            speech = engine.submit(subject.request(subject.texts[2]))
            time.sleep(rng.random() * 0.02)
            speech.abort()
        assert_all_free(engine)
        assert subject.same(speak(engine, subject.request(subject.texts[1])), alone)

    def test_leaving_the_with_block_aborts(self, subject: Subject, engine: Engine) -> None:
        with engine.submit(subject.request(" ".join(subject.texts))) as speech:
            speech.get()
        assert outcome_of(speech).finish_reason in (FinishReason.ABORTED, FinishReason.STOP)
        assert_all_free(engine)

    def test_a_late_result_for_a_dead_request_is_dropped(
        self, subject: Subject, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = subject.engine()
        prepare: Any = engine.pipeline.stages["prepare"]
        entered, go_on, real = threading.Event(), threading.Event(), prepare._function

        def slow(payload: Any) -> Any:
            entered.set()
            assert go_on.wait(10)
            return real(payload)

        monkeypatch.setattr(prepare, "_function", slow)
        monkeypatch.setattr(prepare, "_is_quick", lambda payload: False)  # else `submit` itself would be slow
        speech = engine.submit(subject.request(subject.texts[0]))
        assert entered.wait(10)
        speech.abort()
        assert_all_free(engine)
        go_on.set()
        monkeypatch.setattr(prepare, "_function", real)
        assert speak(engine, subject.request(subject.texts[0])).shape[1] > 0
        with pytest.raises(Aborted):
            hear(speech)
        assert_all_free(engine)
        engine.stop()


class TestFailure:
    def test_a_prepare_that_raises_fails_only_its_request(
        self, subject: Subject, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = subject.engine()
        alone = speak(engine, subject.request(subject.texts[1]))
        prepare: Any = engine.pipeline.stages["prepare"]
        real = prepare._function

        def faulty(request: Any) -> Any:
            if getattr(request, "text", None) == subject.texts[0]:  # later prompts of a request have none
                raise ZeroDivisionError("bad luck")
            return real(request)

        monkeypatch.setattr(prepare, "_function", faulty)
        bad = engine.submit(subject.request(subject.texts[0]))
        good = engine.submit(subject.request(subject.texts[1]))
        assert subject.same(hear(good), alone)
        with pytest.raises(GenerationFailed, match="prepare"):
            hear(bad)
        assert outcome_of(bad).finish_reason == FinishReason.FAILED
        assert_all_free(engine)
        engine.stop()

    def test_nothing_said_is_an_error(self, subject: Subject, engine: Engine) -> None:
        # A text of nothing but symbols may be spoken or refused, but never answered with empty audio.
        with contextlib.suppress(GenerationFailed, InvalidRequest):
            assert speak(engine, subject.request("\u200b.")).shape[1] > 0
        assert_all_free(engine)

    def test_an_unknown_option_is_refused_at_once(self, subject: Subject, engine: Engine) -> None:
        options = {**subject.wishes.get("options", {}), "no_such_thing": 1}
        with pytest.raises(InvalidRequest, match="no option"):
            engine.submit(subject.request(subject.texts[0], options=options))
        assert_all_free(engine)


class TestAdmission:
    def test_past_the_queue_limit_the_answer_is_busy(self, subject: Subject) -> None:
        engine = subject.engine(limits={"max_concurrency": 1, "max_queue": 2})
        text = " ".join(subject.texts * 2)
        running = [engine.submit(subject.request(text)) for _ in range(3)]
        with pytest.raises(Busy) as refused:
            engine.submit(subject.request(text))
        assert refused.value.retry_after_s > 0
        for speech in running:
            speech.abort()
        assert_all_free(engine)
        assert speak(engine, subject.request(subject.texts[0])).shape[1] > 0
        engine.stop()

    def test_queued_requests_are_all_spoken(self, subject: Subject) -> None:
        engine = subject.engine(limits={"max_concurrency": 2, "max_queue": 16})
        speeches = [engine.submit(subject.request(subject.texts[i % 4])) for i in range(12)]
        assert all(hear(speech).shape[1] > 0 for speech in speeches)
        assert_all_free(engine)
        engine.stop()

    def test_stopping_the_engine_ends_every_listener(self, subject: Subject) -> None:
        engine = subject.engine(limits={"max_concurrency": 1})
        speeches = [engine.submit(subject.request(" ".join(subject.texts))) for _ in range(3)]
        engine.stop()
        for speech in speeches:
            with pytest.raises(Unavailable):
                hear(speech)
        with pytest.raises(Unavailable):
            engine.submit(subject.request(subject.texts[0]))

    def test_a_request_id_is_unique_while_it_runs(self, subject: Subject, engine: Engine) -> None:
        speech = engine.submit(subject.request(subject.texts[2]), request_id="mine")
        with pytest.raises(InvalidRequest, match="mine"):
            engine.submit(subject.request(subject.texts[0]), request_id="mine")
        hear(speech)
        assert_all_free(engine)
