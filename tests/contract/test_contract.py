"""Rules that hold for every family, whatever its pipeline."""

import asyncio
import contextlib
import random
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from contract.subject import LONG, assert_all_free, hear, speak
from rhapsode.engine.stage import Stage
from rhapsode.errors import Aborted, Busy, GenerationFailed, InvalidRequest, Unavailable
from rhapsode.models.registry import families
from rhapsode.types import FinishReason


def test_every_registered_family_is_under_contract():
    found, broken = families()
    assert not broken
    assert {name.replace("-", "_") for name in found} == {
        path.stem for path in (Path(__file__).parent / "families").glob("[a-z]*.py")
    }


class TestRepeatability:
    def test_a_seed_repeats(self, subject, engine):
        first = speak(engine, subject.request(subject.texts[1]))
        assert subject.same(first, speak(engine, subject.request(subject.texts[1])))

    def test_another_seed_sounds_different(self, subject, engine):
        first = speak(engine, subject.request(subject.texts[1], seed=1))
        other = speak(engine, subject.request(subject.texts[1], seed=2))
        assert not subject.same(first, other)

    def test_audio_is_finite_and_not_silent(self, subject, engine):
        for text in subject.texts:
            samples = speak(engine, subject.request(text))
            assert np.isfinite(samples).all()
            assert np.abs(samples).max() > 1e-3

    def test_slot_reuse_leaks_nothing(self, subject):
        engine = subject.engine(limits={"max_concurrency": 1})
        order = (0, 2, 1, 2, 0) if LONG else (0, 2, 0)
        alone = {i: speak(engine, subject.request(subject.texts[i])) for i in sorted(set(order))}
        for i in order:
            assert subject.same(speak(engine, subject.request(subject.texts[i])), alone[i])
        engine.stop()

    def test_a_slot_left_midway_leaks_nothing(self, subject):
        engine = subject.engine(limits={"max_concurrency": 1})
        alone = speak(engine, subject.request(subject.texts[0]))
        for text in subject.texts:
            speech = engine.submit(subject.request(text, seed=99))
            speech.get()
            speech.abort()
            assert subject.same(speak(engine, subject.request(subject.texts[0])), alone)
        engine.stop()


class TestNeighbours:
    def test_batch_neighbours_change_nothing(self, subject, engine):
        texts = subject.texts * 3 if LONG else [*subject.texts, *subject.texts[:2]]  # more than there are slots
        requests = [subject.request(text, seed=i) for i, text in enumerate(texts)]
        alone = [speak(engine, request) for request in requests]
        together = [engine.submit(request) for request in requests]
        for speech, expected in zip(together, alone, strict=True):
            assert subject.same(hear(speech), expected)
        assert_all_free(engine)

    def test_a_slow_listener_does_not_stall_others(self, subject, engine):
        slow = engine.submit(subject.request(subject.texts[2]))
        for _ in range(3):
            for text in subject.texts:
                speak(engine, subject.request(text))
        assert_all_free(engine)  # the slow one's slot, too, though nobody has listened yet
        assert hear(slow).shape[1] > 0

    def test_random_joins_leaves_and_aborts_leave_no_trace(self, subject):
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
    def test_while_it_is_queued(self, subject):
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
    def test_after_some_chunks(self, subject, engine, chunks):
        speech = engine.submit(subject.request(" ".join(subject.texts)))
        heard = [speech.get() for _ in range(min(chunks, 2))]
        speech.abort()
        speech.abort()
        assert len(heard) == min(chunks, 2)
        assert_all_free(engine)

    def test_after_it_has_ended_changes_nothing(self, subject, engine):
        speech = engine.submit(subject.request(subject.texts[0]))
        hear(speech)
        speech.abort()
        assert speech.outcome.finish_reason == FinishReason.STOP
        assert_all_free(engine)

    def test_at_random_moments(self, subject, engine):
        rng = random.Random(11)
        alone = speak(engine, subject.request(subject.texts[1]))
        for _ in range(20):
            speech = engine.submit(subject.request(subject.texts[2]))
            time.sleep(rng.random() * 0.02)
            speech.abort()
        assert_all_free(engine)
        assert subject.same(speak(engine, subject.request(subject.texts[1])), alone)

    def test_leaving_the_with_block_aborts(self, subject, engine):
        with engine.submit(subject.request(" ".join(subject.texts))) as speech:
            speech.get()
        assert speech.outcome.finish_reason in (FinishReason.ABORTED, FinishReason.STOP)
        assert_all_free(engine)

    def test_a_late_result_for_a_dead_request_is_dropped(self, subject, monkeypatch):
        engine = subject.engine()
        prepare = engine.pipeline.stages["prepare"]
        entered, go_on, real = threading.Event(), threading.Event(), prepare._function

        def slow(payload):
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
    def test_a_prepare_that_raises_fails_only_its_request(self, subject, monkeypatch):
        engine = subject.engine()
        alone = speak(engine, subject.request(subject.texts[1]))
        prepare: Stage = engine.pipeline.stages["prepare"]
        real = prepare._function

        def faulty(request):
            if getattr(request, "text", None) == subject.texts[0]:  # later prompts of a request have none
                raise ZeroDivisionError("bad luck")
            return real(request)

        monkeypatch.setattr(prepare, "_function", faulty)
        bad = engine.submit(subject.request(subject.texts[0]))
        good = engine.submit(subject.request(subject.texts[1]))
        assert subject.same(hear(good), alone)
        with pytest.raises(GenerationFailed, match="prepare"):
            hear(bad)
        assert bad.outcome.finish_reason == FinishReason.FAILED
        assert_all_free(engine)
        engine.stop()

    def test_nothing_said_is_an_error(self, subject, engine, monkeypatch):
        # A text of nothing but symbols may be spoken or refused, but never answered with empty audio.
        with contextlib.suppress(GenerationFailed, InvalidRequest):
            assert speak(engine, subject.request("\u200b.")).shape[1] > 0
        assert_all_free(engine)

    def test_an_unknown_option_is_refused_at_once(self, subject, engine):
        options = {**subject.wishes.get("options", {}), "no_such_thing": 1}
        with pytest.raises(InvalidRequest, match="no option"):
            engine.submit(subject.request(subject.texts[0], options=options))
        assert_all_free(engine)


class TestAdmission:
    def test_past_the_queue_limit_the_answer_is_busy(self, subject):
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

    def test_queued_requests_are_all_spoken(self, subject):
        engine = subject.engine(limits={"max_concurrency": 2, "max_queue": 16})
        speeches = [engine.submit(subject.request(subject.texts[i % 4])) for i in range(12)]
        assert all(hear(speech).shape[1] > 0 for speech in speeches)
        assert_all_free(engine)
        engine.stop()

    def test_stopping_the_engine_ends_every_listener(self, subject):
        engine = subject.engine(limits={"max_concurrency": 1})
        speeches = [engine.submit(subject.request(" ".join(subject.texts))) for _ in range(3)]
        engine.stop()
        for speech in speeches:
            with pytest.raises(Unavailable):
                hear(speech)
        with pytest.raises(Unavailable):
            engine.submit(subject.request(subject.texts[0]))

    def test_a_request_id_is_unique_while_it_runs(self, subject, engine):
        speech = engine.submit(subject.request(subject.texts[2]), request_id="mine")
        with pytest.raises(InvalidRequest, match="mine"):
            engine.submit(subject.request(subject.texts[0]), request_id="mine")
        hear(speech)
        assert_all_free(engine)


class TestAppendedText:
    def open(self, subject, engine, **wishes):
        if not engine.spec.can.text_stream:
            pytest.skip("this family wants its whole text first")
        return engine.submit(subject.request("", text_open=True, **wishes))

    @pytest.mark.parametrize("pause_s", [0.0, 0.01])
    def test_text_appended_word_by_word_sounds_like_the_whole(self, subject, engine, pause_s):
        for text in subject.texts if LONG else subject.texts[:2] if pause_s else subject.texts[2:]:
            whole = speak(engine, subject.request(text))
            speech = self.open(subject, engine)
            for word in text.split(" "):
                speech.append(word if word == text.split(" ")[0] else f" {word}")
                time.sleep(pause_s)
            speech.finish_text()
            assert subject.same(hear(speech), whole)

    def test_waiting_for_text_blocks_nobody(self, subject, engine):
        waiting = self.open(subject, engine)
        for text in subject.texts:
            assert speak(engine, subject.request(text)).shape[1] > 0
        waiting.append(subject.texts[0])
        waiting.finish_text()
        assert subject.same(hear(waiting), speak(engine, subject.request(subject.texts[0])))

    def test_it_can_be_aborted_while_it_waits(self, subject, engine):
        waiting = self.open(subject, engine)
        time.sleep(0.02)
        waiting.abort()
        assert_all_free(engine)

    def test_closed_text_cannot_be_appended_to(self, subject, engine):
        speech = self.open(subject, engine)
        speech.append(" ".join(subject.texts * 4))
        speech.finish_text()
        with pytest.raises(InvalidRequest, match="closed"):
            speech.append("more")
        speech.abort()
        speech.append("more")  # it is over: nobody minds
        assert_all_free(engine)

    def test_appended_text_is_bounded(self, subject, engine):
        speech = self.open(subject, engine)
        with pytest.raises(InvalidRequest, match="characters"):
            speech.append("x" * (engine.deployment.limits.max_text_chars + 1))
        speech.abort()
        assert_all_free(engine)


class TestListening:
    def test_from_asyncio_many_at_once(self, subject, engine):
        async def listen(text):
            chunks = [chunk.samples async for chunk in engine.submit(subject.request(text))]
            return np.concatenate(chunks, axis=1)

        async def all_of_them():
            return await asyncio.gather(*(listen(text) for text in subject.texts))

        for text, samples in zip(subject.texts, asyncio.run(all_of_them()), strict=True):
            assert subject.same(samples, speak(engine, subject.request(text)))

    def test_the_outcome_tells_how_it_went(self, subject, engine):
        speech = engine.submit(subject.request(subject.texts[2]))
        samples = hear(speech)
        outcome = speech.outcome
        assert outcome.finish_reason == FinishReason.STOP
        assert outcome.audio_s == pytest.approx(samples.shape[1] / engine.spec.sample_rate)
        assert 0 <= outcome.queued_s <= outcome.first_audio_s <= outcome.total_s
        assert outcome.frames > 0
        assert outcome.error is None
