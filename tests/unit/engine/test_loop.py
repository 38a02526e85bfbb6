"""The device loop: it works in the context of its maker, and counts turns that keep everybody waiting."""

import threading
import time

import torch

from rhapsode.engine import loop as loops
from rhapsode.engine.bell import Bell
from rhapsode.engine.loop import Loop
from rhapsode.engine.stage import TurnStage
from rhapsode.nn import kernels


class Once(TurnStage):
    """Does one thing in its first turn."""

    def __init__(self, do):
        super().__init__("once", Bell())
        self._do = do
        self.done = threading.Event()
        self.rested = 0

    def turn(self):
        if self.done.is_set():
            return False
        self._do()
        self.done.set()
        return True

    def rest(self):
        self.rested += 1

    def jobs(self):
        return []


def run(do):
    stage = Once(do)
    loop = Loop("test", stage.bell, [stage])
    loop.start()
    assert stage.done.wait(5)
    loop.stop()
    return loop


def test_kernels_are_on_in_the_loop_as_they_were_where_it_was_made():
    found = []
    for mode in ("always", "off"):
        with kernels.use(mode):
            run(lambda: found.append(kernels.on(torch.zeros(1))))
    assert found == [True, False]


def test_a_slow_turn_is_counted_by_its_stage(monkeypatch):
    monkeypatch.setattr(loops, "SLOW_S", 0.01)
    assert run(lambda: time.sleep(0.03)).slow_turns == {"once": 1}
    assert run(lambda: None).slow_turns == {}


def test_the_longest_turn_of_a_stage_is_known_until_it_is_forgotten():
    loop = run(lambda: time.sleep(0.03))
    assert loop.longest_turns_s["once"] >= 0.03
    loop.forget_turns()
    assert (loop.longest_turns_s, loop.slow_turns) == ({}, {})


def test_stages_rest_once_when_there_has_been_no_work_for_a_while(monkeypatch):
    monkeypatch.setattr(loops, "REST_S", 0.02)
    stage = Once(lambda: None)
    loop = Loop("test", stage.bell, [stage])
    loop.start()
    assert stage.done.wait(5)
    time.sleep(0.5)
    assert stage.rested == 1
    stage.bell.ring()
    time.sleep(0.5)
    loop.stop()
    assert stage.rested == 2
