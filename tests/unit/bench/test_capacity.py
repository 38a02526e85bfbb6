"""The simulation of a fleet agrees with queueing theory, chooses as the cluster does, and finds the smallest fleet."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rhapsode.bench.capacity.curve import ReplicaCurve, fit, read_curve
from rhapsode.bench.capacity.edge import SimulatedEdge, name
from rhapsode.bench.capacity.history import LoadPoint
from rhapsode.bench.capacity.scaler import ScalingPlan
from rhapsode.bench.capacity.simulate import simulate
from rhapsode.bench.capacity.traffic import Traffic, TrafficPlan, read_trace
from rhapsode.bench.report import Run, compose
from rhapsode.cli.main import app
from rhapsode.edge.balance import in_order
from rhapsode.engine.admission import HEADROOM
from rhapsode.errors import InvalidRequest
from unit.bench.reports import check

FIXED_AUDIO_S = 4.0


def curve(paces: dict[int, float], first_s: float = 0.0, slots: int = 64, real_time: bool = False) -> ReplicaCurve:
    points = [LoadPoint(rows, pace, [first_s, first_s]) for rows, pace in paces.items()]
    return fit(points, slots, headroom=HEADROOM if real_time else None)


def poisson(rate: float, lengths, seed: int = 1) -> Traffic:
    rng = np.random.default_rng(seed)
    return Traffic(np.cumsum(rng.exponential(1 / rate, len(lengths))), np.asarray(lengths), [None] * len(lengths))


def fixed(replicas: int) -> ScalingPlan:
    return ScalingPlan(replicas, replicas)


# --- one replica, against theory ---


@pytest.mark.parametrize("use", [0.5, 0.8])
@pytest.mark.slow
def test_with_one_place_the_wait_is_that_of_a_queue_with_one_server(use: float) -> None:
    service_s = 0.5 * FIXED_AUDIO_S
    found = simulate(curve({1: 0.5}, slots=1), poisson(use / service_s, [FIXED_AUDIO_S] * 60_000), fixed(1), 10_000)
    expected_s = use * service_s / (2 * (1 - use))  # Pollaczek and Khinchine, equal lengths
    assert found.queued_s.mean() == pytest.approx(expected_s, rel=0.08)
    assert found.busy == pytest.approx(use, rel=0.03)


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_requests_that_share_a_replica_take_as_long_as_theory_says_whatever_their_lengths(spread: float) -> None:
    rng = np.random.default_rng(0)
    lengths = FIXED_AUDIO_S * rng.lognormal(-(spread**2) / 2, spread, 60_000)
    traffic = poisson(0.6 / (0.1 * FIXED_AUDIO_S), lengths)  # twice the requests take twice the time: use 0.6
    found = simulate(curve({1: 0.1, 64: 6.4}), traffic, fixed(1), 10_000)
    in_it = found.busy * 64
    assert in_it == pytest.approx(0.6 / (1 - 0.6), rel=0.08)  # processor sharing: requests in it on average


def test_speech_slower_than_real_time_has_gaps_and_admission_prevents_them() -> None:
    paces, traffic = {1: 0.3, 4: 1.2}, poisson(0.7, [FIXED_AUDIO_S] * 2_000)
    free = simulate(curve(paces), traffic, fixed(1), 1_000)
    careful = simulate(curve(paces, real_time=True), traffic, fixed(1), 1_000)
    assert free.with_gap > 100
    assert careful.with_gap == 0
    assert careful.queued_s.max() > 1


def test_past_the_queue_requests_are_refused() -> None:
    found = simulate(curve({1: 1.0}, slots=1), Traffic(np.zeros(5) + 1, np.ones(5), [None] * 5), fixed(1), 2)
    assert (found.served, found.refused) == (3, 2)


def test_first_audio_is_what_was_measured_for_that_load() -> None:
    points = [LoadPoint(1, 0.01, [0.1] * 2), LoadPoint(3, 0.01, [0.3] * 2)]
    found = simulate(fit(points, 3, headroom=None), Traffic(np.zeros(3), np.ones(3), [None] * 3), fixed(1), 0)
    assert sorted(found.first_s) == pytest.approx([0.1, 0.2, 0.3])


# --- several replicas ---


@dataclass
class Replica:
    id: str
    load: float


def test_the_edge_of_the_simulation_chooses_as_the_cluster_does() -> None:
    rng = random.Random(0)
    for _ in range(300):
        loads = {number: rng.randrange(6) for number in range(rng.randrange(1, 7))}
        edge = SimulatedEdge()
        edge.poll(loads)
        for _ in range(8):
            key = rng.choice([None, "Ada", "Ben", "Cem"])
            chosen = in_order([Replica(name(number), load) for number, load in loads.items()], key)[0]
            assert edge.choose(key) == int(chosen.id)
            loads[int(chosen.id)] += 1
            if rng.random() < 0.5:
                over = rng.choice([number for number, load in loads.items() if load])
                edge.ended(over)
                loads[over] -= 1


def test_without_a_replica_there_is_no_choice() -> None:
    assert SimulatedEdge().choose("Ada") is None


def test_two_replicas_behind_an_edge_serve_twice_the_traffic_as_well_as_one() -> None:
    def waits(replicas: int) -> float:
        traffic = poisson(replicas * 0.7 / 2, [FIXED_AUDIO_S] * 20_000)
        return float(simulate(curve({1: 0.5}, slots=1), traffic, fixed(replicas), 1_000).queued_s.mean())

    assert waits(2) < waits(1)


def test_replicas_follow_the_load_and_no_request_is_lost_when_they_go() -> None:
    traffic = TrafficPlan(60, 4.0, 600, daily=True).generate(0)
    plan = ScalingPlan(1, 20, start_s=5, down_delay_s=20)
    found = simulate(curve({1: 0.2, 8: 0.8}, slots=8), traffic, plan, 1_000)
    sizes = [replicas for _, replicas, _ in found.timeline]
    assert (sizes[0], found.refused, found.served) == (1, 0, len(traffic))
    assert max(sizes) >= 5
    assert sizes[-1] <= 4
    assert found.replica_s < 0.8 * max(sizes) * traffic.duration_s


# --- curves and traffic ---


def engine_report(paces: dict[int, float]) -> dict:
    deployment = {"frame_hz": 12.5, "subject": "qwen3-tts-1.7b"}
    runs = [
        Run(
            f"batch {batch}",
            {"frame_ms": [pace * 80] * 2, "first_audio_ms": [10.0 * batch, 12.0 * batch]},
            {"mode": "graphs", "batch": batch},
        )
        for batch, pace in paces.items()
    ]
    return compose("engine", deployment, 0, runs)


def test_a_curve_has_values_between_and_past_what_was_measured() -> None:
    found = read_curve(engine_report({1: 0.1, 4: 0.4, 8: 0.6}), 16)
    assert found.pace[[1, 2, 4, 8, 16]] == pytest.approx([0.1, 0.2, 0.4, 0.6, 1.2])
    assert found.first_s[16].max() == pytest.approx(0.192)


@pytest.mark.parametrize(("gpus", "places"), [([], 8), ([{"name": "H200"}], 10)])  # 0.6 and 0.75 of real time
def test_a_curve_lets_in_as_many_as_a_server_would(gpus, places) -> None:
    report = engine_report({1: 0.1, 4: 0.4, 8: 0.6})
    report["machine"]["gpus"] = gpus
    assert read_curve(report, 16).places == places


def test_a_report_without_closed_loops_is_no_curve() -> None:
    report = compose("serve", {"url": "http://x"}, 0, [Run("open", {}, {"load": "open", "completed": 1})])
    with pytest.raises(InvalidRequest, match="--closed"):
        read_curve(report)


def test_generated_traffic_has_as_many_listeners_as_asked_for() -> None:
    traffic = TrafficPlan(50, 6.0, 2_000).generate(0)
    assert traffic.listeners == pytest.approx(50, rel=0.05)
    assert traffic.mean_audio_s == pytest.approx(6.0, rel=0.05)
    assert (np.diff(traffic.at_s) >= 0).all()


def test_a_trace_is_read_from_csv_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("at_s,audio_s,key\n7,2.5,Ada\n5,1,\n")
    traffic = read_trace(file)
    assert (traffic.at_s.tolist(), traffic.audio_s.tolist(), list(traffic.keys)) == ([0, 2], [1, 2.5], [None, "Ada"])
    for content in (
        "at_s,length\n1,2\n2,3\n",
        "at_s,audio_s\n1,x\n2,3\n",
        "at_s,audio_s\n1,-1\n2,3\n",
        "",
        "at_s,audio_s\n1,2\n",
    ):
        file.write_text(content)
        with pytest.raises(InvalidRequest):
            read_trace(file)


# --- the command ---


def run(folder: Path, *arguments: str) -> dict:
    (folder / "one.json").write_text(json.dumps(engine_report({1: 0.05, 4: 0.1, 16: 0.4})))
    command = ["bench", "capacity", str(folder / "one.json"), *arguments, "-o", str(folder / "out.json")]
    result = CliRunner().invoke(app, command)
    if result.exception:
        raise result.exception
    return check(folder / "out.json")


@pytest.mark.slow
def test_the_fewest_replicas_are_found(tmp_path: Path) -> None:
    report = run(tmp_path, "--listeners", "300", "--first-audio", "150", "--minutes", "3", "--plot")
    good = {run["replicas"]: run["meets_goal"] for run in report["runs"]}
    fewest = report["config"]["fewest_replicas"]
    assert good[fewest] is True
    assert good[fewest - 1] is False
    for plot in ("first-audio", "over-time"):
        assert (tmp_path / f"out-{plot}.svg").read_text().lstrip().startswith("<?xml")


def test_a_goal_that_one_listener_alone_does_not_reach_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="12 ms"):
        run(tmp_path, "--listeners", "10", "--first-audio", "5")


def test_numbers_of_replicas_can_be_given(tmp_path: Path) -> None:
    report = run(tmp_path, "--listeners", "60", "--replicas", "1,3", "--least", "1", "--minutes", "2")
    assert [run["label"] for run in report["runs"]] == ["1 replica", "3 replicas"]
    assert report["runs"][1]["summary"]["first_audio_ms"]["p99"] < report["runs"][0]["summary"]["first_audio_ms"]["p99"]


def test_traffic_and_a_question_are_needed(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="--listeners or --trace"):
        run(tmp_path, "--replicas", "1")
    with pytest.raises(InvalidRequest, match="--first-audio"):
        run(tmp_path, "--listeners", "5")
