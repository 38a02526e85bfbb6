"""Requests of several prompts: prepared by the call stages, spoken in one slot, with marks between them."""

import threading
import time
import weakref
from dataclasses import replace

import numpy as np
import pytest

from contract.chain import CHAIN
from contract.incremental import INCREMENTAL, SHORTENED
from rhapsode.config import resolve
from rhapsode.engine import Engine
from rhapsode.errors import GenerationFailed, InvalidRequest, TimedOut
from rhapsode.models.base import Part
from rhapsode.models.dummy.prompt import DummyPrepare
from rhapsode.models.dummy.spec import SPEC
from rhapsode.testing.subject import assert_all_free, hear, speak
from rhapsode.types import FinishReason, SpeechRequest

HERE = __name__
TEXTS = ("First.", "And the second one.", "Last.")
SEED = 3


class PrepareParts(DummyPrepare):
    """Speaks every line as a prompt of its own; the instructions say how they follow each other."""

    threads: set[str] = set()  # noqa: RUF012

    def __call__(self, work):
        PrepareParts.threads.add(threading.current_thread().name)
        part = work if isinstance(work, Part) else Part(work, tuple(work.text.split("\n")))
        text, *rest = part.texts
        if text == "fail":
            raise InvalidRequest("this line cannot be spoken.")
        prompt = super().__call__(replace(part.request, text=text, instructions=None))
        prompt = replace(prompt, following=(lambda: Part(part.request, tuple(rest))) if rest else None)
        how = part.request.instructions or ""
        follows = isinstance(work, Part)
        return replace(
            prompt,
            continues=follows and "continues" in how,
            positions=512 if "continues" in how else 0,
            new_segment=follows and "segment" in how,
            silence_s=0.5 if "pause" in how else 0.0,
            **({"max_frames": 0} if text == "context" else {}),
            afresh=prompt if "afresh" in how else None,
        )


def in_parts(spec):
    prepare, *others = spec.pipeline
    return replace(spec, pipeline=(replace(prepare, factory=f"{HERE}:PrepareParts"), *others))


def engine_of(spec, **settings):
    settings["limits"] = {"max_positions": 1024, "max_concurrency": 4, **settings.get("limits", {})}
    return Engine(in_parts(spec), resolve(env={}, flags={"threads": 1, **settings}))


@pytest.fixture(scope="module", params=[SPEC, CHAIN, INCREMENTAL], ids=["dummy", "chain", "incremental"])
def spec(request):
    return request.param


@pytest.fixture(scope="module")
def engine(spec):
    with engine_of(spec) as running:
        yield running


def say(engine, *lines, how=None, seed=SEED):
    return speak(engine, SpeechRequest("\n".join(lines), instructions=how, seed=seed))


def test_segments_sound_as_if_each_were_a_request_of_its_own(engine):
    alone = [say(engine, text, seed=SEED + i) for i, text in enumerate(TEXTS)]
    assert np.array_equal(say(engine, *TEXTS, how="segment"), np.concatenate(alone, axis=1))


@pytest.mark.parametrize("chunks", [{}, {"first": 3, "largest": 5, "ring": 12}, {"largest": 1, "ring": 4}], ids=str)
def test_the_last_frame_of_a_segment_may_be_context_that_is_not_heard(chunks):
    with engine_of(INCREMENTAL) as whole, engine_of(SHORTENED, chunks=chunks) as shortened:
        hop = whole.pipeline.workers["vocode"].hop
        alone = [say(whole, text, seed=SEED + i)[:, :-hop] for i, text in enumerate(TEXTS)]
        assert np.array_equal(say(shortened, *TEXTS, how="segment"), np.concatenate(alone, axis=1))
        together = say(whole, *TEXTS)
        assert np.array_equal(say(shortened, *TEXTS), together[:, :-hop])


def test_without_segments_later_stages_go_on_from_what_they_heard(engine):
    whole = say(engine, *TEXTS)
    assert whole.shape == say(engine, *TEXTS, how="segment").shape
    assert not np.array_equal(whole, say(engine, *TEXTS, how="segment"))


def test_a_pause_is_exact_silence_where_it_was_asked_for(engine):
    pause = engine.spec.sample_rate // 2
    alone = [say(engine, text, seed=SEED + i) for i, text in enumerate(TEXTS)]
    silence = np.zeros((1, pause), np.float32)
    expected = np.concatenate([piece for one in alone for piece in (silence, one)], axis=1)
    assert np.array_equal(say(engine, *TEXTS, how="segment pause"), expected)


def test_a_prompt_that_continues_remembers_what_was_said(engine):
    fresh, continued = say(engine, *TEXTS), say(engine, *TEXTS, how="continues")
    first = say(engine, TEXTS[0]).shape[1]
    assert fresh.shape == continued.shape
    assert not np.array_equal(fresh[:, first:], continued[:, first:])
    assert np.array_equal(continued, say(engine, *TEXTS, how="continues"))


def test_every_schedule_and_every_neighbour_gives_the_same(engine, spec):
    hows = ("segment", "pause", "continues", "continues segment pause", None)
    alone = {how: say(engine, *TEXTS, how=how) for how in hows}
    schedules = ({"first": 3, "largest": 5, "ring": 12}, {"largest": 1, "ring": 4}, {"first": 16, "patience_s": 10.0})
    for chunks in schedules:
        with engine_of(spec, chunks=chunks) as other:
            speeches = [
                (how, other.submit(SpeechRequest("\n".join(TEXTS), instructions=how, seed=SEED))) for how in hows * 2
            ]
            for how, speech in speeches:
                assert np.array_equal(hear(speech), alone[how])
            assert_all_free(other)


def test_parts_are_prepared_by_the_call_stage_and_not_in_the_loop(engine):
    PrepareParts.threads.clear()
    say(engine, *TEXTS)
    assert all(name.startswith("rhapsode-prepare") for name in PrepareParts.threads)


def test_a_part_that_cannot_be_prepared_fails_its_request_alone(engine):
    bad = engine.submit(SpeechRequest("Good.\nfail\nNever.", seed=1))
    good = engine.submit(SpeechRequest("\n".join(TEXTS), seed=SEED))
    assert np.array_equal(hear(good), say(engine, *TEXTS))
    with pytest.raises(InvalidRequest, match="line"):
        hear(bad)
    assert_all_free(engine)


def test_a_request_of_parts_can_be_aborted_at_any_moment(engine):
    for delay_s in np.linspace(0, 0.03, 12):
        speech = engine.submit(SpeechRequest("\n".join(TEXTS * 4), instructions="segment continues", seed=SEED))
        time.sleep(delay_s)
        speech.abort()
    assert_all_free(engine)


def test_a_context_that_is_full_is_an_error_and_not_a_crash(engine):
    with pytest.raises((InvalidRequest, GenerationFailed), match=r"positions|cut"):
        say(engine, *["Something long to say, again and again." * 4] * 8, how="continues")
    assert_all_free(engine)


def test_a_prompt_that_is_context_only_is_remembered_and_not_spoken(engine):
    spoken, silent = (say(engine, first, TEXTS[1], how="continues") for first in (TEXTS[0], "context"))
    alone = say(engine, TEXTS[1])
    assert silent.shape == alone.shape
    assert not np.array_equal(silent, alone)
    assert not np.array_equal(silent, spoken[:, -silent.shape[1] :])
    assert_all_free(engine)


def test_nothing_but_context_is_an_error(engine):
    with pytest.raises(GenerationFailed, match="without saying"):
        say(engine, "context", how="continues")
    assert_all_free(engine)


def test_a_prompt_without_room_to_continue_starts_afresh(engine):
    long = "Something long to say, again and again." * 4
    lines = [long] * 5  # there is room for three
    assert say(engine, *lines, how="continues afresh").shape == say(engine, *lines).shape
    assert_all_free(engine)


def test_frames_that_were_asked_for_may_end_where_a_part_ends(engine):
    alone = engine.submit(SpeechRequest(TEXTS[0], seed=SEED))
    first = hear(alone)
    speech = engine.submit(SpeechRequest("\n".join(TEXTS), seed=SEED, max_frames=alone.outcome.frames))
    assert np.array_equal(hear(speech), first)
    assert speech.outcome.finish_reason == FinishReason.LENGTH
    assert_all_free(engine)


def wait_for(condition):
    give_up_s = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < give_up_s
        time.sleep(0.005)


class TestSlowListeners:
    LIMITS = {"max_unread_s": 0.5, "unread_timeout_s": 0.5}  # noqa: RUF012
    LONG = SpeechRequest("word " * 60, seed=SEED)

    @pytest.mark.parametrize("spec", [SPEC, CHAIN], ids=["dummy", "chain"])
    def test_who_does_not_read_is_paused_and_hears_everything_later(self, spec):
        with engine_of(spec) as free:
            expected = speak(free, self.LONG)
        with engine_of(spec, limits={**self.LIMITS, "unread_timeout_s": 20}) as engine:
            slow = engine.submit(self.LONG)
            time.sleep(0.3)
            waiting_s = sum(chunk.duration_s for chunk in slow._chunks)
            assert waiting_s < 4.0  # of 24: what was in flight when it was full, and no more
            assert np.array_equal(hear(slow), expected)

    def test_who_never_reads_is_given_up(self):
        with engine_of(SPEC, limits=self.LIMITS) as engine:
            stalled = engine.submit(self.LONG)
            assert_all_free(engine)
            with pytest.raises(TimedOut, match="not read"):
                hear(stalled)

    def test_audio_that_nobody_read_is_freed_with_its_request(self):
        with engine_of(SPEC, limits={**self.LIMITS, "unread_timeout_s": 20}) as engine:
            for _ in range(3):
                unread = engine.submit(self.LONG)
                wait_for(lambda unread=unread: unread.full and engine.pipeline.stages["vocode"].poll_s)
                unread.abort()
                kept, unread = weakref.ref(unread), None
                wait_for(lambda kept=kept: kept() is None)
            assert_all_free(engine)
            assert engine.pipeline.stages["vocode"].poll_s is None, "it still looks whether somebody reads"


def test_requests_whose_blocks_begin_elsewhere_share_launches_and_stay_exact():
    with engine_of(CHAIN) as engine:
        requests = [SpeechRequest(text, instructions="x" * i, seed=i) for i in range(4) for text in TEXTS]
        alone = [speak(engine, request) for request in requests]
        for speech, expected in zip([engine.submit(request) for request in requests], alone, strict=True):
            assert np.array_equal(hear(speech), expected)
