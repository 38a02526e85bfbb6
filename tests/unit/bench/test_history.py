"""Simulated requests join with whole frames; a curve is found although the number of requests changes all the time."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rhapsode.bench.capacity.curve import ReplicaCurve, read_curve
from rhapsode.bench.capacity.scaler import ScalingPlan
from rhapsode.bench.capacity.simulate import simulate
from rhapsode.bench.capacity.traffic import Traffic
from rhapsode.bench.report import Run, compose
from rhapsode.errors import InvalidRequest
from unit.bench.frames import FRAME_S, Client, speak

STEPS_S = [0.0, 0.020, 0.032, 0.044, 0.056]
HEADS = [0, 1, 1, 4, 4]


def known_curve(tail: int = 1) -> ReplicaCurve:
    pace, heads = np.array(STEPS_S) / FRAME_S, np.array(HEADS) * FRAME_S
    pace[0] = pace[1]
    waits = np.concatenate([[0, 0], pace[1:-1]])[:, None] * FRAME_S * np.linspace(0, 1, 101)
    return ReplicaCurve(pace, (heads * pace)[:, None] + waits, heads, 4, FRAME_S, tail * FRAME_S)


def traffic(*requests: tuple[float, int]) -> Traffic:
    at_s, frames = zip(*requests, strict=True)
    return Traffic(np.array(at_s), np.array(frames) * FRAME_S, [None] * len(requests))


def first_ms(*requests: tuple[float, int]) -> list[float]:
    return (simulate(known_curve(), traffic(*requests), ScalingPlan(1, 1), 100).first_s * 1e3).tolist()


# --- a replica ---


def test_a_request_joins_when_the_frame_of_the_others_is_complete() -> None:
    assert first_ms((0, 50), (0.045, 50)) == pytest.approx([20, 15 + 32])


def test_requests_that_arrive_during_a_frame_join_together() -> None:
    assert first_ms((0, 50), (0.021, 50), (0.039, 50)) == pytest.approx([20, 19 + 4 * 44, 1 + 4 * 44])


def test_the_end_of_another_request_brings_first_audio_about() -> None:
    """Three at once begin with four frames. One ends after two of them, and then one frame is enough."""
    alone, with_end = first_ms((0, 50), (0.01, 50), (0.03, 50)), first_ms((0, 3), (0.01, 50), (0.03, 50))
    assert alone == pytest.approx([20, 10 + 32, 22 + 4 * 44])
    assert with_end == pytest.approx([20, 10 + 32, 22 + 2 * 44 + 32])


def test_a_request_that_joins_puts_off_the_first_audio_of_those_that_wait_for_it() -> None:
    """The third one joins together with the second, or one frame later."""
    assert first_ms((0, 50), (0.001, 50), (0.019, 50))[1] == pytest.approx(19 + 4 * 44)
    assert first_ms((0, 50), (0.001, 50), (0.021, 50))[1] == pytest.approx(19 + 32)


@pytest.mark.parametrize("seed", range(3))
def test_it_agrees_with_a_simulation_of_every_frame(seed: int) -> None:
    rng = np.random.default_rng(seed)
    at_s = np.sort(rng.uniform(0, 80, 500))
    frames = rng.integers(3, 14, 500)
    slow = speak([Client(t, [int(n)], [0.0]) for t, n in zip(at_s, frames, strict=True)], STEPS_S, HEADS)
    slow.sort(key=lambda one: one.sent_s)
    found = simulate(known_curve(), Traffic(at_s, frames * FRAME_S, [None] * 500), ScalingPlan(1, 1), 500)
    assert found.first_s == pytest.approx([one.heard_s - one.sent_s for one in slow], abs=1e-6)
    assert found.ended_s == pytest.approx(max(one.ends_s for one in slow))


# --- a curve ---


def closed_runs(
    levels: tuple[int, ...], pause_s: float, lengths: range = range(4, 14), requests: int = 80
) -> list[Run]:
    rng = random.Random(0)
    runs = []
    for level in levels:
        clients = [
            Client(
                rng.uniform(0, 0.1),
                [rng.choice(lengths) for _ in range(requests // level)],
                [rng.uniform(0, pause_s) for _ in range(requests // level)],
            )
            for _ in range(level)
        ]
        done = speak(clients, STEPS_S, HEADS)
        total_s = np.array([one.ends_s - one.sent_s for one in done])
        samples = {
            "sent_ms": [one.sent_s * 1e3 for one in done],
            "first_playable_ms": [(one.heard_s - one.sent_s) * 1e3 for one in done],
            "first_chunk_ms": [one.head * FRAME_S * 1e3 for one in done],
            "total_ms": (total_s * 1e3).tolist(),
            "rtf": (total_s / np.array([one.frames * FRAME_S for one in done])).tolist(),
        }
        facts = {"load": "closed", "level": level, "pause_s": pause_s, "completed": len(done)}
        runs.append(Run(f"closed {level}", samples, facts))
    return runs


@pytest.mark.parametrize("pause_s", [0.05, 0.2])
def test_the_curve_is_found_although_clients_come_and_go(pause_s: float) -> None:
    report = compose("serve", {"frame_hz": 1 / FRAME_S}, 0, closed_runs((1, 2, 3, 4), pause_s))
    found, true = read_curve(report, real_time=False), known_curve()
    assert found.pace[1:] == pytest.approx(true.pace[1:], rel=0.03)
    assert found.head_s[1:] == pytest.approx(true.head_s[1:])
    assert found.tail_s == pytest.approx(true.tail_s, rel=0.01)
    assert np.median(found.first_s[1:], axis=1) == pytest.approx(np.median(true.first_s[1:], axis=1), rel=0.1)


def test_without_pauses_and_all_levels_a_curve_is_nearly_as_good() -> None:
    report = compose("serve", {"frame_hz": 1 / FRAME_S}, 0, closed_runs((1, 2, 4), 0.0))
    found, true = read_curve(report, real_time=False), known_curve()
    assert found.pace[[1, 2, 4]] == pytest.approx(true.pace[[1, 2, 4]], rel=0.05)
    assert found.head_s[[1, 2, 4]] == pytest.approx(true.head_s[[1, 2, 4]])


def test_requests_of_one_length_and_unknown_frames_give_a_curve_that_is_a_little_slower() -> None:
    """Then it cannot be told what a request takes besides its audio: here one frame in ten."""
    report = compose("serve", {"frame_hz": None}, 0, closed_runs((1, 2, 3, 4), 0.05, range(10, 11)))
    found, true = read_curve(report, real_time=False), known_curve()
    assert (found.frame_s, found.tail_s) == (0, 0)
    assert found.pace[1:] / true.pace[1:] == pytest.approx([1.1, 1.15, 1.15, 1.15], abs=0.06)


def test_a_report_without_the_times_of_its_requests_is_no_curve() -> None:
    (run,) = closed_runs((1,), 0.0)
    samples = {name: values for name, values in run.samples.items() if name != "sent_ms"}
    with pytest.raises(InvalidRequest, match="--closed"):
        read_curve(compose("serve", {}, 0, [Run(run.label, samples, run.facts)]))
