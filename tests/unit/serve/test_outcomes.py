"""What is remembered of requests, and for how many of them."""

import weakref

import pytest

from rhapsode.errors import Aborted, Busy, InvalidRequest, TimedOut
from rhapsode.serve.listeners import NotRead
from rhapsode.serve.observe.metrics import Metrics
from rhapsode.serve.observe.outcomes import Outcomes
from rhapsode.types import FinishReason, Outcome


def outcome(request_id: str, reason: FinishReason = FinishReason.STOP, **fields) -> Outcome:
    timing = {"audio_s": 2.0, "frames": 10, "queued_s": 0.0, "first_audio_s": 0.1, "total_s": 0.5, **fields}
    return Outcome(request_id, reason, **timing)


@pytest.fixture
def ends() -> list:
    return []


@pytest.fixture
def outcomes(ends: list) -> Outcomes:
    return Outcomes(lambda outcome, reason: ends.append((outcome.request_id, reason)), most=3)


def test_a_request_runs_ends_and_is_delivered(outcomes: Outcomes, ends: list) -> None:
    outcomes.began("a")
    assert outcomes.get("a").body() == {
        "id": "a",
        "object": "speech.outcome",
        "status": "running",
        "delivered": False,
        "error": None,
    }
    outcomes.ended(outcome("a"))
    outcomes.delivered("a")
    body = outcomes.get("a").body()
    assert (body["status"], body["finish_reason"], body["delivered"], body["audio_s"]) == (
        "finished",
        "stop",
        True,
        2.0,
    )
    assert ends == [("a", None)]


def test_an_error_recorded_before_the_end_explains_it(outcomes: Outcomes, ends: list) -> None:
    late = TimedOut("too late.")
    outcomes.began("a")
    outcomes.record_error("a", late)
    outcomes.ended(outcome("a", FinishReason.ABORTED, error=Aborted("gone.")))
    body = outcomes.get("a").body()
    assert (body["status"], body["finish_reason"], body["error"]["code"]) == ("failed", "failed", "timeout")
    assert [(name, type(error), error.message) for name, error in ends] == [("a", TimedOut, late.message)]


def test_an_abort_says_so(outcomes: Outcomes) -> None:
    outcomes.began("a")
    outcomes.ended(outcome("a", FinishReason.ABORTED, error=Aborted("gone.")))
    assert outcomes.get("a").body()["error"]["code"] == "aborted"
    assert outcomes.get("a").status == "aborted"


def test_what_is_kept_of_an_error_holds_nothing_of_the_request(outcomes: Outcomes) -> None:
    class Samples: ...

    def fail(samples: Samples) -> None:
        raise Aborted("gone.")

    samples = Samples()
    still_there = weakref.ref(samples)
    try:
        fail(samples)
    except Aborted as error:
        outcomes.began("a")
        outcomes.record_error("a", error)
        outcomes.ended(outcome("a", FinishReason.ABORTED, error=error))
    del samples
    assert still_there() is None
    assert outcomes.get("a").body()["error"]["message"] == "gone."


def test_only_the_last_ones_are_kept(outcomes: Outcomes) -> None:
    for name in "abcd":
        outcomes.began(name)
        outcomes.ended(outcome(name))
    assert [outcomes.get(name) is not None for name in "abcd"] == [False, True, True, True]
    outcomes.ended(outcome("a"))  # late news of one that is forgotten
    assert outcomes.get("a") is None


def test_an_id_in_use_is_refused_and_a_used_one_may_return(outcomes: Outcomes) -> None:
    outcomes.began("a")
    with pytest.raises(InvalidRequest, match="still running"):
        outcomes.began("a")
    outcomes.ended(outcome("a"))
    outcomes.began("a")
    assert outcomes.get("a").status == "running"
    outcomes.refused("a")
    assert outcomes.get("a") is None


def test_metrics_tell_who_did_not_read_and_who_was_refused_from_failures() -> None:
    metrics = Metrics()
    metrics.ended(outcome("a", FinishReason.ABORTED, error=Aborted("gone.")), NotRead("others waited."))
    metrics.ended(outcome("b", FinishReason.FAILED, error=Busy("full.")), None)
    text = metrics.text().decode()
    for how, count in (("unread", 1), ("refused", 1), ("failed", 0), ("timeout", 0)):
        assert f'rhapsode_requests_total{{outcome="{how}"}} {count}.0' in text


def test_metrics_tell_time_outs_from_failures() -> None:
    metrics = Metrics()
    metrics.ended(outcome("a", FinishReason.ABORTED, error=Aborted("gone.")), TimedOut("late."))
    metrics.ended(outcome("b", FinishReason.LENGTH, underruns=2), None)
    text = metrics.text().decode()
    for line in (
        'rhapsode_requests_total{outcome="timeout"} 1.0',
        'rhapsode_requests_total{outcome="length"} 1.0',
        'rhapsode_requests_total{outcome="failed"} 0.0',
        "rhapsode_underruns_total 2.0",
        "rhapsode_real_time_factor_count 1.0",
    ):
        assert line in text
