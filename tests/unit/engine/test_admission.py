"""Who is let in when: everybody in stays faster than real time, with a talker of known pace."""

import time
from types import SimpleNamespace

import pytest

from rhapsode.config import Limits, resolve
from rhapsode.engine import Engine, pace
from rhapsode.engine.admission import CPU_HEADROOM, Admission
from rhapsode.engine.pace import SlowestPace
from rhapsode.errors import Busy
from rhapsode.types import SpeechRequest
from unit.engine import slow
from unit.engine.slow import FRAME_S, ROW_S, SLOW, STEP_S, UNTRACED

PLACES = 4
QUEUE = 12
TEXT = "x" * 8


def engine_of(**limits):
    limits = {"max_concurrency": 16, "max_positions": 1024, **limits}
    return Engine(SLOW, resolve(env={}, flags={**UNTRACED, "limits": limits}))


def listener(text=TEXT, **wishes):
    return SpeechRequest(text, real_time=True, **wishes)


def finish(speeches):
    return [list(speech) and speech.outcome for speech in speeches]


def test_a_crowd_that_is_refused_is_told_what_was_worked_out_for_the_first_of_it():
    class CountedAdmission(Admission):
        asked = 0

        def wait_s(self, queue):
            self.asked += 1
            return 5.0

    admission = CountedAdmission(SlowestPace([]), Limits())
    promised_s = [admission.promised_s([]) for _ in range(1000)]
    assert admission.asked < 500  # one for every tenth of a second
    assert all(4.8 <= wait_s <= 5.0 for wait_s in promised_s)


@pytest.fixture(scope="module")
def engine():
    """One that has spoken: it knows its pace."""
    with engine_of(max_queue=QUEUE) as running:
        for rows in (1, 8):
            finish([running.submit(SpeechRequest(TEXT)) for _ in range(rows)])
        yield running


@pytest.fixture(autouse=True)
def idle(engine):
    yield
    deadline_s = time.monotonic() + 10
    while engine.load().slots_in_use or engine.load().queued:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_the_engine_learns_how_many_listeners_it_can_serve(monkeypatch):
    """Its time is what the talker sleeps, so that other programs do not slow it down."""
    assert STEP_S + PLACES * ROW_S < CPU_HEADROOM * FRAME_S < STEP_S + (PLACES + 1) * ROW_S
    slept_s = [1.0]
    monkeypatch.setattr(slow, "time", SimpleNamespace(sleep=slept_s.append))
    monkeypatch.setattr(pace, "clock_s", lambda: sum(slept_s))
    with engine_of() as engine:
        for rows in (1, 8):
            finish([engine.submit(SpeechRequest(TEXT)) for _ in range(rows)])
        assert engine.load().places == PLACES


def test_listeners_past_the_pace_wait(engine):
    speeches = [engine.submit(listener()) for _ in range(12)]
    load = engine.load()
    assert 1 <= load.slots_in_use <= PLACES
    assert load.queued == 12 - load.slots_in_use
    outcomes = finish(speeches)
    assert outcomes[0].queued_s < 0.1 < outcomes[-1].queued_s


@pytest.mark.slow
def test_requests_without_a_listener_use_every_slot(engine):
    speeches = [engine.submit(SpeechRequest(TEXT)) for _ in range(16)]
    assert engine.load().slots_in_use == 16
    finish(speeches)


@pytest.mark.slow
def test_beside_a_listener_a_request_without_one_waits_too(engine):
    speeches = [engine.submit(listener()) for _ in range(2)] + [engine.submit(SpeechRequest(TEXT)) for _ in range(8)]
    assert engine.load().slots_in_use <= PLACES
    finish(speeches)


def test_a_listener_does_not_join_a_crowd_that_would_make_it_run_dry(engine):
    crowd = [engine.submit(SpeechRequest(TEXT)) for _ in range(12)]
    late = engine.submit(listener())
    assert engine.load().queued == 1
    assert finish([late])[0].queued_s > 0.5
    finish(crowd)


def test_a_listener_who_plays_faster_needs_more(engine):
    speeches = [engine.submit(listener(speed=2.0)) for _ in range(6)]
    assert engine.load().slots_in_use <= 3
    finish(speeches)


@pytest.mark.slow
def test_the_rule_can_be_switched_off():
    with engine_of(real_time=False) as running:
        finish([running.submit(listener())])
        speeches = [running.submit(listener()) for _ in range(8)]
        assert running.load().slots_in_use == 8
        assert running.load().places == 16
        finish(speeches)


@pytest.mark.slow
def test_an_engine_that_knows_nothing_lets_one_in_and_learns():
    with engine_of() as running:
        speeches = [running.submit(listener("x" * 40)) for _ in range(12)]
        assert running.load().slots_in_use == 1
        time.sleep(2.5)
        assert running.load().slots_in_use > 1  # nobody has left yet
        for speech in speeches:
            speech.abort()


@pytest.mark.slow
def test_the_time_to_retry_is_when_the_request_would_have_been_let_in(engine):
    speeches = []
    while engine.load().queued < QUEUE:
        speeches.append(engine.submit(listener("x" * (4 + len(speeches) % 8))))
    started_s = time.monotonic()
    with pytest.raises(Busy) as refused:
        engine.submit(listener())
    while engine.load().queued:
        time.sleep(0.01)
    assert refused.value.retry_after_s == pytest.approx(time.monotonic() - started_s, rel=0.6)
    finish(speeches)
