"""The pace is learnt from measurements, interpolated between batch sizes, and corrected by what is measured later."""

import math

import pytest

from rhapsode.engine import pace as paces
from rhapsode.engine.pace import MEMORY, Pace, SlowestPace

FRAME_S = 0.08


def learnt(*points: tuple[int, float], times: int = 4) -> Pace:
    """A pace that was measured: rows, and seconds that a frame of all of them took."""
    pace = Pace()
    for rows, step_s in points:
        for _ in range(times):
            pace.observe(rows, step_s, rows * FRAME_S)
    return pace


def test_what_was_never_measured_is_too_slow_for_everybody():
    assert Pace().at(1) == math.inf
    assert not Pace().known
    assert SlowestPace([Pace(), Pace()]).most(1.0, 8) == 0


def test_a_measured_size_is_known_and_sizes_between_are_interpolated():
    pace = learnt((1, 0.01), (4, 0.02), (16, 0.06))
    assert [pace.at(rows) * FRAME_S for rows in (1, 4, 16)] == pytest.approx([0.01, 0.02, 0.06])
    assert pace.at(10) * FRAME_S == pytest.approx(0.04)
    factors = [pace.at(rows) for rows in range(1, 65)]
    assert factors == sorted(factors)


def test_a_size_above_all_measured_ones_takes_as_long_as_its_rows_one_after_the_other():
    assert learnt((2, 0.02)).at(8) * FRAME_S == pytest.approx(0.08)


def test_a_size_below_all_measured_ones_is_no_slower_than_they_are():
    assert learnt((8, 0.04)).at(2) * FRAME_S == pytest.approx(0.04)


def test_rows_that_are_served_in_small_batches_count_with_all_of_their_work():
    pace = Pace()
    pace.observe(rows=8, work_s=0.01, audio_s=2 * FRAME_S)  # two of eight listeners got a frame in 10 ms
    assert pace.at(8) * FRAME_S == pytest.approx(0.04)


def test_new_measurements_replace_old_ones_of_the_same_size():
    pace = learnt((4, 0.06), times=MEMORY)
    for _ in range(5 * MEMORY):
        pace.observe(4, 0.02, 4 * FRAME_S)
    assert pace.at(4) * FRAME_S == pytest.approx(0.02, rel=0.05)


def test_one_slow_step_is_no_news():
    pace = learnt((4, 0.02), times=MEMORY)
    pace.observe(4, 0.3, 4 * FRAME_S)
    assert pace.at(4) * FRAME_S < 0.03


def test_one_slow_step_of_a_new_size_is_no_news_if_larger_ones_are_known():
    pace = learnt((16, 0.004), (64, 0.005))
    pace.observe(32, 0.02, 32 * FRAME_S)  # it had to wait for prompts
    assert pace.at(32) * FRAME_S < 0.007
    assert pace.at(64) * FRAME_S < 0.007
    for _ in range(paces.PRIOR * 4):
        pace.observe(32, 0.02, 32 * FRAME_S)
    assert pace.at(32) * FRAME_S > 0.015


def test_a_quiet_machine_is_noticed_for_sizes_that_are_not_measured_again():
    pace = learnt((1, 0.05), (16, 0.6))  # while something else kept it busy
    for _ in range(10 * MEMORY):
        pace.observe(1, 0.01, FRAME_S)
    assert pace.at(16) * FRAME_S <= 0.16 + 1e-3


def test_a_busy_machine_is_noticed_for_sizes_that_are_not_measured_again():
    pace = learnt((1, 0.01), (16, 0.03))
    for _ in range(10 * MEMORY):
        pace.observe(1, 0.05, FRAME_S)
    assert pace.at(16) >= pace.at(1) > 0.5


def test_the_time_between_two_steps_counts_only_while_the_work_goes_on(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(paces, "clock_s", lambda: now[0])
    pace = Pace()
    for pause in (False, False, True, False):
        pace.tick(2, 2 * FRAME_S)
        if pause:
            pace.pause()
            now[0] += 10.0
        now[0] += 0.02
    assert pace.at(2) * FRAME_S == pytest.approx(0.02)


def test_other_work_between_two_steps_does_not_count(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(paces, "clock_s", lambda: now[0])
    pace = Pace()
    pace.tick(2, 2 * FRAME_S)
    for other_s in (0.0, 0.005, 0.019, 0.021, 0.5):  # the last two are mostly other work, and say nothing
        now[0] += other_s + (0.02 if other_s < 0.02 else 0.001)
        pace.tick(2, 2 * FRAME_S, other_s)
    assert pace.at(2) * FRAME_S == pytest.approx(0.02)


def test_of_stages_side_by_side_the_slowest_decides():
    both = SlowestPace([learnt((1, 0.01), (8, 0.02)), learnt((1, 0.005), (8, 0.06)), Pace()])
    assert both.at(1) * FRAME_S == pytest.approx(0.01)
    assert both.at(8) * FRAME_S == pytest.approx(0.06)
    assert both.most(0.75, 32) == 8
    assert both.most(0.75, 5) == 5


def test_who_waits_is_called_when_something_was_measured():
    calls = []
    pace = Pace()
    pace.on_change = lambda: calls.append(pace.at(1))
    pace.observe(1, 0.01, FRAME_S)
    pace.observe(0, 0.01, FRAME_S)
    assert calls == [pytest.approx(0.125)]
