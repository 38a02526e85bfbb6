import asyncio
import statistics
import time

import pytest

from rhapsode.bench.serve.client import Listener, make_session
from rhapsode.bench.serve.lag import LagMeter
from rhapsode.bench.serve.load import put_load
from rhapsode.bench.serve.measure import ServePlan, measure
from rhapsode.bench.serve.schedule import Load, poisson
from rhapsode.bench.serve.target import make_target
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


def loaded(load, count, script):
    async def run():
        async with serving(script) as (url, log), make_session() as session:
            listener = Listener(session, make_target(url, "rhapsode"))
            return await put_load(load, count, listener, ["One.", "Two."], 0, lambda: None), log

    return asyncio.run(run())


def test_a_closed_loop_keeps_so_many_listeners_busy():
    done, log = loaded(Load("closed", 3), 9, Script([(0.03, tone(0.1))]))
    assert len(done.heard) == 9
    assert log.most_at_once == 3
    assert [body["input"] for body in log.bodies[:2]] == ["One.", "Two."]
    assert sorted(body["seed"] for body in log.bodies) == list(range(9))


def test_a_burst_comes_all_at_once():
    done, log = loaded(Load("burst", 6), 12, Script([(0.1, tone(0.1))]))
    assert len(done.heard) == 12
    assert log.most_at_once == 6


def test_an_open_loop_does_not_wait_for_answers():
    # Twenty a second against answers of half a second: a closed loop would take five seconds for ten.
    done, log = loaded(Load("open", 20), 10, Script([(0.5, tone(0.1))]))
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


def plan(url, **settings):
    return ServePlan(make_target(url, "rhapsode"), (Load("closed", 2), Load("burst", 4)), ("Hello.",), **settings)


def test_a_report_counts_errors_by_kind_and_the_rest_by_percentile():
    answers = [
        Script([(0.01, tone(0.5))]),
        Script([(0.01, b"{}")], status=500, content_type="application/json"),
        Script([(0.01, tone(0.1))], end="drop"),
        Script([(0.01, tone(0.04)), (0.12, tone(0.1))]),
    ]
    with serving_in_thread(lambda body: answers[body["seed"] % 4]) as (url, _):
        report = check(measure(plan(url, requests=8, warm_up=0)))
    closed, burst = report["runs"]
    assert (closed["label"], burst["label"]) == ("closed, c=2", "burst of 4")
    for run in (closed, burst):
        assert (run["requests"], run["completed"]) == (8, 4)
        assert run["errors"] == {"http 500": 2, "dropped": 2}
        assert run["underruns"] == run["requests_with_underruns"] == 2
        assert run["stalled_s"] == pytest.approx(2 * 0.08, abs=0.08)
        assert run["audio_s"] == pytest.approx(2 * 0.5 + 2 * 0.14)
        assert run["summary"]["first_playable_ms"]["n"] == 4
        assert run["summary"]["first_playable_ms"]["min"] >= 10


def test_a_server_that_is_not_there_is_said_at_once():
    with pytest.raises(Unavailable, match="nobody answers"):
        measure(plan("http://127.0.0.1:9"))
