import asyncio
import statistics
import time

import pytest

from rhapsode.bench.serve.apply_load import apply_load
from rhapsode.bench.serve.client import SpeechClient, make_session
from rhapsode.bench.serve.lag import LagMeter
from rhapsode.bench.serve.load_level import LoadLevel, poisson
from rhapsode.bench.serve.measure import ServePlan, measure
from rhapsode.bench.serve.server import speech_server
from rhapsode.errors import Unavailable
from unit.bench.fake_server import Script, serving, serving_in_thread, tone
from unit.bench.reports import check


def test_arrivals_repeat_with_their_seed():
    assert poisson(10, 50, seed=3) == poisson(10, 50, seed=3)
    assert poisson(10, 50, seed=3) != poisson(10, 50, seed=4)


def test_arrivals_are_poisson():
    arrivals = poisson(20, 4000, seed=0)
    gaps = [later - earlier for earlier, later in zip((0.0, *arrivals), arrivals, strict=False)]
    assert min(gaps) > 0
    assert statistics.fmean(gaps) == pytest.approx(1 / 20, rel=0.05)
    assert statistics.pstdev(gaps) == pytest.approx(1 / 20, rel=0.08)  # of an exponential, the mean


def result_of(load, count, script):
    async def run():
        async with serving(script) as (url, log), make_session() as session:
            client = SpeechClient(session, speech_server(url, "rhapsode"))
            return await apply_load(load, range(count), client, ["One.", "Two."], 0, lambda: None), log

    return asyncio.run(run())


def test_a_closed_loop_keeps_so_many_listeners_busy():
    done, log = result_of(LoadLevel("closed", 3), 9, Script([(0.03, tone(0.1))]))
    assert len(done.responses) == 9
    assert log.most_at_once == 3
    assert [body["input"] for body in log.bodies[:2]] == ["One.", "Two."]
    assert sorted(body["seed"] for body in log.bodies) == list(range(9))


def test_a_closed_loop_with_pauses_has_fewer_listeners_at_once():
    def wall_s(pause_s: float) -> float:
        return result_of(LoadLevel("closed", 2, pause_s), 12, Script([(0.01, tone(0.1))]))[0].wall_s

    assert wall_s(0.4) > wall_s(0.0) + 0.4  # six pauses of 0.2 s on average for each client


def test_a_burst_comes_all_at_once():
    done, log = result_of(LoadLevel("burst", 6), 12, Script([(0.1, tone(0.1))]))
    assert len(done.responses) == 12
    assert log.most_at_once == 6


def test_an_open_loop_does_not_wait_for_answers():
    # Twenty a second against answers of half a second: a closed loop would take five seconds for ten.
    done, log = result_of(LoadLevel("open", 20), 10, Script([(0.5, tone(0.1))]))
    assert log.most_at_once >= 4
    assert done.wall_s == pytest.approx(poisson(20, 10, 0)[-1] + 0.5, abs=0.3)


def test_a_client_that_is_blocked_says_so():
    async def run():
        async with LagMeter() as meter:
            for _ in range(10):
                await asyncio.sleep(0.001)
                time.sleep(0.03)
        return meter.as_dict()

    found = asyncio.run(run())
    assert found["slow"]
    assert found["lag_max_ms"] >= 15


def plan(url, *loads, **settings):
    return ServePlan(speech_server(url, "rhapsode"), tuple(LoadLevel(*load) for load in loads), ("Hello.",), **settings)


def test_a_report_counts_errors_by_kind_and_the_rest_by_percentile():
    answers = [
        Script([(0.01, tone(0.5))]),
        Script([(0.01, b"{}")], status=500, content_type="application/json"),
        Script([(0.01, tone(0.1))], end="drop"),
        Script([(0.01, tone(0.04)), (0.12, tone(0.1))]),
    ]
    with serving_in_thread(lambda body: answers[body["seed"] % 4]) as (url, _):
        report = check(measure(plan(url, ("closed", 2), requests=8, warm_up=0)))
    (run,) = report["runs"]
    assert run["label"] == "closed, c=2"
    assert (run["requests"], run["completed"]) == (8, 4)
    assert run["errors"] == {"http 500": 2, "dropped": 2}
    assert run["underruns"] == run["requests_with_underruns"] == 2
    assert run["stalled_s"] == pytest.approx(2 * 0.08, abs=0.08)
    assert run["audio_s"] == pytest.approx(2 * 0.5 + 2 * 0.14)
    assert run["summary"]["first_playable_ms"]["n"] == 4
    assert run["summary"]["first_playable_ms"]["min"] >= 10


def test_a_report_says_when_requests_were_sent_and_how_much_came_first():
    with serving_in_thread(Script([(0.05, tone(0.3)), (0.05, tone(0.1))])) as (url, _):
        report = check(measure(plan(url, ("closed", 2), requests=6, warm_up=0)))
    samples = report["runs"][0]["samples"]
    sent_ms, ends_ms = samples["sent_ms"], [a + b for a, b in zip(samples["sent_ms"], samples["total_ms"], strict=True)]
    for client in (slice(0, 3), slice(3, 6)):
        assert all(sent >= end for sent, end in zip(sent_ms[client][1:], ends_ms[client], strict=False))
    assert samples["first_chunk_ms"] == pytest.approx([300] * 6)
    assert report["config"]["frame_hz"] is None  # the server does not tell


def test_the_first_burst_is_a_row_of_its_own():
    """A server that has just started is slow once: that must show, and must not slow down the other rows."""

    def answer(body):
        return Script([(0.3 if body["seed"] < 4 else 0.01, tone(0.2))])

    with serving_in_thread(answer) as (url, log):
        report = check(measure(plan(url, ("burst", 4), requests=9, warm_up=0)))
    first, later = report["runs"]
    assert (first["label"], first["load"], first["requests"]) == ("first burst of 4", "first burst", 4)
    assert (later["label"], later["load"], later["requests"]) == ("burst of 4", "burst", 8)  # bursts are whole
    assert first["summary"]["first_playable_ms"]["min"] >= 300
    assert later["summary"]["first_playable_ms"]["max"] < 300
    assert sorted(body["seed"] for body in log.bodies) == list(range(12))  # no request is repeated
    assert log.most_at_once == 4


@pytest.mark.parametrize(
    ("load", "requests", "counts"),
    [
        (("closed", 8), None, [32]),
        (("closed", 1), None, [16]),
        (("open", 2), None, [60]),
        (("burst", 256), None, [256, 512]),
        (("burst", 256), 256, [256]),
        (("burst", 4), 2, [4]),
    ],
)
def test_how_many_requests_a_load_sends(load, requests, counts):
    assert [len(numbers) for _, numbers in plan("http://x", load, requests=requests).steps()] == counts


def test_a_server_that_is_not_there_is_an_error_at_once():
    with pytest.raises(Unavailable, match="no server answers"):
        measure(plan("http://127.0.0.1:9", ("closed", 1)))


@pytest.mark.slow
def test_processes_share_a_load_and_leave_nothing_out():
    with serving_in_thread(Script([(0.2, tone(0.2))])) as (url, log):
        loads = (("burst", 5), ("closed", 5), ("open", 50))
        report = check(measure(plan(url, *loads, requests=10, warm_up=0, processes=2)))
    first, burst, closed, arrivals = report["runs"]
    assert [run["completed"] for run in report["runs"]] == [5, 5, 10, 10]
    assert sorted(body["seed"] for body in log.bodies) == sorted([*range(10), *range(10), *range(10)])
    assert log.most_at_once >= 5
    for run in (first, burst, closed):
        assert run["summary"]["first_playable_ms"]["min"] >= 200
    assert closed["wall_s"] >= 0.4  # two requests of each client, one after the other
    assert arrivals["wall_s"] >= poisson(50, 10, 0)[-1] + 0.2
    assert first["client"]["lag_max_ms"] >= 0


def test_each_burst_has_figures_of_its_own():
    def answer(body):
        return Script([(0.3 if 8 <= body["seed"] < 12 else 0.01, tone(0.2))])

    with serving_in_thread(answer) as (url, _):
        report = check(measure(plan(url, ("burst", 4), requests=16, warm_up=0)))
    rounds = report["runs"][1]["rounds"]
    assert [burst["completed"] for burst in rounds] == [4, 4, 4]
    assert rounds[1]["first_p50_ms"] >= 300 > max(rounds[0]["first_p99_ms"], rounds[2]["first_p99_ms"])
    assert rounds[1]["audio_s_per_s"] == pytest.approx(4 * 0.2 / rounds[1]["wall_s"], rel=0.01)


def test_a_refused_request_comes_again_when_it_is_told_to():
    seen: list[int] = []

    def answer(body):
        is_first = body["seed"] not in seen
        seen.append(body["seed"])
        if body["seed"] == 0 or not is_first:
            return Script([(0.1, tone(0.2))])
        return Script([(0.0, b"{}")], status=429, content_type="application/json", headers={"Retry-After": "1"})

    with serving_in_thread(answer) as (url, _):
        given = ServePlan(speech_server(url, "rhapsode"), (LoadLevel("burst", 3, retries=2),), ("Hello.",), 3, 0)
        (run,) = check(measure(given))["runs"]
    refused = run["refused"]
    assert (run["completed"], run["errors"]) == (3, {})
    assert (refused["requests"], refused["again"], refused["retry_after_s"]["max"]) == (2, 0, 1.0)
    assert 100 <= refused["first_playable_after_ms"]["min"] < 1000  # counted from the second attempt
    assert refused["queue_s"] == pytest.approx(0.1, abs=0.2)


def test_without_retries_a_refusal_is_an_error_and_its_promise_is_kept():
    script = Script([(0.0, b"{}")], status=429, content_type="application/json", headers={"Retry-After": "7"})
    with serving_in_thread(script) as (url, _):
        (run,) = check(measure(plan(url, ("burst", 2), requests=2, warm_up=0)))["runs"]
    assert run["errors"] == {"http 429": 2}
    assert run["refused"]["retry_after_s"]["max"] == 7.0
    assert run["refused"]["queue_s"] is None
