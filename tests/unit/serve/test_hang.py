"""A device loop that has hung is found, and one that works is not."""

import threading
import time
from collections.abc import Callable

import pytest

from rhapsode.config import resolve
from rhapsode.device.landing import Landing
from rhapsode.engine import Engine
from rhapsode.engine.bell import Bell
from rhapsode.engine.loop import Loop, Underway
from rhapsode.engine.stage import Drop, TurnStage
from rhapsode.models.dummy.spec import SPEC
from rhapsode.serve.process.hang import HangWatch
from rhapsode.types import SpeechRequest

MOST, MOST_INLINE = 3, 9


class Stuck(TurnStage):
    """A stage whose turns last until they are let go."""

    def __init__(self, inline: bool) -> None:
        super().__init__("stuck", Bell())
        self.works_inline = inline
        self.begun, self.let_go = threading.Semaphore(0), threading.Semaphore(0)

    def jobs(self) -> list:
        return []

    def turn(self) -> bool:
        if self.inbox.drain():
            self.begun.release()
            self.let_go.acquire()
        return False


def looks(watch: HangWatch, most: int = 50) -> int | None:
    """How often the watch looks until it finds something."""
    return next((count for count in range(1, most) if watch.look() is not None), None)


@pytest.mark.parametrize(("inline", "most"), [(False, MOST), (True, MOST_INLINE)])
def test_a_turn_that_does_not_end_is_found(inline: bool, most: int) -> None:
    stage = Stuck(inline)
    loop = Loop("stuck", stage.bell, [stage])
    watch = HangWatch(loop.unfinished, MOST, MOST_INLINE)
    loop.start()
    assert looks(watch) is None  # a loop that sleeps has not hung
    stage.inbox.put(Drop(None))
    stage.begun.acquire()
    assert looks(watch) == most + 1
    found = watch.look()
    assert (found.stage, found.kind) == ("stuck", "turn")
    stage.let_go.release()
    loop.stop()
    assert watch.look() is None


def test_turns_that_follow_each_other_are_not_one_long_turn() -> None:
    stage = Stuck(False)
    loop = Loop("stuck", stage.bell, [stage])
    watch = HangWatch(loop.unfinished, MOST, MOST_INLINE)
    loop.start()
    for _ in range(20):
        stage.inbox.put(Drop(None))
        stage.begun.acquire()
        assert watch.look() is None
        assert watch.look() is None
        stage.let_go.release()
    loop.stop()


def launches(numbers: list[int | None]) -> Callable[[], list[Underway]]:
    left = iter(numbers)

    def unfinished() -> list[Underway]:
        number = next(left)
        return [] if number is None else [Underway("talk", "launch", number, False)]

    return unfinished


def test_a_launch_that_the_device_does_not_end_is_found_though_turns_go_on() -> None:
    assert looks(HangWatch(launches([7] * 9), MOST, MOST_INLINE)) == MOST + 1


def test_an_engine_names_the_launch_that_its_device_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = threading.Event()
    ready = Landing.ready
    monkeypatch.setattr(Landing, "ready", lambda landing: not hangs.is_set() and ready(landing))
    with Engine(SPEC, resolve(env={}, flags={"model": "dummy", "device": "cpu"})) as engine:
        watch = HangWatch(engine.unfinished, MOST, MOST)
        hangs.set()
        speech = engine.submit(SpeechRequest("Hello."))
        while not (steps := [step for step in engine.unfinished() if step.kind == "launch"]):
            time.sleep(0.001)
        assert {step.stage for step in steps} == {"talk"}
        while (found := watch.look()) is None:
            time.sleep(0.001)
        assert (found.stage, found.kind) == ("talk", "launch")
        hangs.clear()
        assert sum(chunk.duration_s for chunk in speech) > 0
        while engine.unfinished():
            time.sleep(0.001)
        assert looks(watch) is None


def test_launches_that_end_are_no_hang() -> None:
    numbers = [7, 7, 7, 8, 8, 8, None, 8, 8, 8, *range(9, 40)]
    assert looks(HangWatch(launches(numbers), MOST, MOST_INLINE), len(numbers)) is None
