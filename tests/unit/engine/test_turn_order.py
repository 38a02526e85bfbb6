"""Prompts and frames share a device: prompts go first, and no listener waits for long."""

import pytest

from rhapsode.engine import turn_order
from rhapsode.engine.turn_order import TurnOrder

PLAYS_S = 0.08


@pytest.fixture
def now(monkeypatch):
    now = [10.0]
    monkeypatch.setattr(turn_order, "clock_s", lambda: now[0])
    return now


def frames(order, now, took_s, count=40):
    """Frames one right after the other, two of them in flight."""
    order.frame_launched()
    for _ in range(count):
        order.frame_launched()
        now[0] += took_s
        order.frame_landed()
    now[0] += took_s
    order.frame_landed()


def between(order, prompt_s):
    """How long prompts of this size take until a frame is due."""
    launched = 0
    while not order.is_frame_due:
        order.prompts_launched(prompt_s)
        launched += 1
    order.frame_launched()
    return launched * prompt_s


def test_a_frame_is_not_due_before_any_prompt_has_run():
    assert not TurnOrder(PLAYS_S).is_frame_due


@pytest.mark.parametrize("prompt_s", [0.003, 0.01, 0.013])
def test_prompts_take_no_more_than_40_ms_between_two_frames(prompt_s):
    assert 0.02 < between(TurnOrder(PLAYS_S), prompt_s) <= TurnOrder.MOST_S + 1e-9


def test_one_launch_of_prompts_always_runs():
    assert between(TurnOrder(PLAYS_S), 0.1) == 0.1


def test_prompts_of_unknown_length_alternate_with_frames():
    order = TurnOrder(PLAYS_S)
    order.prompts_launched(0.0)
    assert order.is_frame_due


@pytest.mark.parametrize("frame_ms", [3, 11, 18, 35])
def test_prompts_and_a_frame_take_less_than_a_frame_plays(now, frame_ms):
    order = TurnOrder(PLAYS_S)
    frames(order, now, frame_ms / 1e3)
    assert between(order, 0.005) + frame_ms / 1e3 <= TurnOrder.HEADROOM * PLAYS_S + 1e-9


def test_a_slow_talker_leaves_some_time_to_prompts(now):
    order = TurnOrder(PLAYS_S)
    frames(order, now, 0.2)
    assert order.most_s == pytest.approx(TurnOrder.LEAST * PLAYS_S)


def test_the_time_of_prompts_is_not_taken_for_that_of_frames(now):
    order = TurnOrder(PLAYS_S)
    frames(order, now, 0.02)
    before_s = order.most_s
    for _ in range(20):
        order.frame_launched()
        order.prompts_launched(0.03)
        order.frame_launched()
        for took_s in (0.02, 0.05):
            now[0] += took_s
            order.frame_landed()
    assert order.most_s == pytest.approx(before_s)


def test_a_short_frame_is_launched_just_before_the_one_in_flight_ends(now):
    order = TurnOrder(PLAYS_S)
    frames(order, now, 0.003)
    assert not order.is_early  # nothing is in flight
    order.frame_launched()
    assert order.is_early
    now[0] += 0.003 - TurnOrder.AHEAD_S + 1e-6
    assert not order.is_early


def test_audio_of_a_first_frame_goes_ahead_of_the_next_frame(now):
    order = TurnOrder(PLAYS_S)
    frames(order, now, 0.003)
    order.frame_launched(is_first=True)
    now[0] += 0.0029
    assert order.is_early
    order.frame_landed()
    assert not order.is_early


def test_a_long_frame_is_launched_as_soon_as_there_is_room_for_it(now):
    order = TurnOrder(PLAYS_S)
    frames(order, now, 0.011)
    order.frame_launched(is_first=True)
    assert not order.is_early


def test_frames_that_become_shorter_are_noticed_though_each_is_alone(now):
    order = TurnOrder(PLAYS_S)
    frames(order, now, 0.005)
    order.frame_launched()
    now[0] += 0.0025
    order.frame_landed()
    order.frame_launched()
    now[0] += 0.0025 - TurnOrder.AHEAD_S + 1e-6
    assert not order.is_early


def test_a_frame_that_lands_tells_of_the_prompts_before_it(now):
    order = TurnOrder(PLAYS_S)
    order.prompts_launched(0.003)
    order.prompts_launched(0.004)
    order.frame_launched()
    order.frame_launched()
    assert [order.frame_landed(), order.frame_landed()] == [pytest.approx(0.007), 0.0]
