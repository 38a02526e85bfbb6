"""Threads that read and prepare requests give way to the turns of a device loop, but never for long."""

import threading
import time
from math import inf

import pytest

from rhapsode.engine.bell import Bell
from rhapsode.engine.loop import Loop
from rhapsode.engine.right_of_way import MOST_S, RightOfWay, of_device_loops
from rhapsode.engine.stage import TurnStage


def waited_s(way):
    started_s = time.perf_counter()
    way.give()
    return time.perf_counter() - started_s


def test_nobody_waits_outside_a_turn():
    way = RightOfWay()
    assert waited_s(way) < MOST_S / 2
    way.take()
    way.leave()
    assert waited_s(way) < MOST_S / 2


def test_who_gives_way_goes_on_at_the_end_of_the_turn(monkeypatch):
    monkeypatch.setattr("rhapsode.engine.right_of_way.MOST_S", 30.0)
    way, waiting, gone_on = RightOfWay(), [], []

    def work(number):
        waiting.append(number)
        way.give()
        gone_on.append(number)

    way.take()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    while len(waiting) < 3:
        time.sleep(0.001)
    time.sleep(0.02)
    assert gone_on == []
    way.leave()
    for thread in threads:
        thread.join(10)
    assert sorted(gone_on) == [0, 1, 2]


def test_a_turn_that_does_not_end_is_not_waited_for():
    way = RightOfWay()
    way.take()
    assert MOST_S / 2 < waited_s(way) < 1.0


def test_who_has_given_way_works_for_a_while(monkeypatch):
    monkeypatch.setattr("rhapsode.engine.right_of_way.WORK_S", 30.0)
    way = RightOfWay()
    way.take()
    assert waited_s(way) > MOST_S / 2
    assert waited_s(way) < MOST_S / 2


def test_others_wait_for_a_turn_that_is_due_but_has_not_begun():
    way = RightOfWay()
    way.expect(time.perf_counter() + 30)
    assert waited_s(way) < MOST_S / 2
    way.expect(time.perf_counter())
    assert MOST_S / 2 < waited_s(way) < 1.0


class Sleeper(TurnStage):
    """A stage that has a launch on its way, and notes when others would wait for it."""

    poll_s = 0.02

    def __init__(self, works_inline):
        super().__init__("sleeper", Bell())
        self.works_inline, self.expected_s, self.began_s = works_inline, [], []

    def turn(self):
        self.began_s.append(time.perf_counter())
        return False

    def jobs(self):
        return []


@pytest.mark.parametrize("works_inline", [False, True])
def test_a_sleeping_loop_says_when_it_will_be_back(works_inline):
    stage = Sleeper(works_inline)
    loop = Loop("test", stage.bell, [stage])
    loop.start()
    while len(stage.began_s) < 2:
        expected_s = of_device_loops._expected_s
        if stage.began_s and expected_s != inf:
            stage.expected_s.append(expected_s)
        time.sleep(0.001)
    loop.stop()
    assert bool(stage.expected_s) == (not works_inline)
    assert all(0.01 < at_s - stage.began_s[0] < 1.0 for at_s in stage.expected_s)
    assert of_device_loops._expected_s == inf


class Turns(TurnStage):
    """A stage that notes whether others would wait for its turn."""

    def __init__(self, works_inline):
        super().__init__("turns", Bell())
        self.works_inline, self.taken = works_inline, []

    def turn(self):
        self.taken.append(of_device_loops._is_taken)
        raise RuntimeError("a bug")

    def jobs(self):
        return []


@pytest.mark.parametrize("works_inline", [False, True])
def test_a_loop_takes_it_for_turns_that_only_launch(works_inline):
    stage = Turns(works_inline)
    loop = Loop("test", stage.bell, [stage])
    loop.start()
    while len(stage.taken) < 3:
        time.sleep(0.001)
    loop.stop()
    assert set(stage.taken) == {not works_inline}
    assert not of_device_loops._is_taken
