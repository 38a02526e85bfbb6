"""The device loop: one thread that runs the stages of one device in turn, so device state needs no locks."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextvars import copy_context
from math import inf
from typing import NamedTuple

from rhapsode.device import compilations
from rhapsode.engine.bell import Bell
from rhapsode.engine.clock import clock_s
from rhapsode.engine.isolation import failure
from rhapsode.engine.right_of_way import LATE_S, of_device_loops
from rhapsode.engine.stage import TurnStage

log = logging.getLogger("rhapsode.engine")

SLOW_S = 0.05
"""Turns that take longer than this are counted: all listeners of the device wait for them."""
REST_S = 1.0
"""After so long without any work the stages rest."""


class Underway(NamedTuple):
    """A turn, or a launch on a device, that has not ended."""

    stage: str
    kind: str
    number: int
    works_inline: bool


class _Here(threading.local):
    """Whether a thread is a device loop."""

    is_loop = False


_here = _Here()


def in_device_loop() -> bool:
    """Returns whether the calling thread is a device loop. Listeners wait for it, so other threads take its work."""
    return _here.is_loop


class Loop:
    """Runs the turns of its stages until it is stopped; sleeps while none has anything to do."""

    def __init__(self, name: str, bell: Bell, stages: Sequence[TurnStage]) -> None:
        """`bell`: rung by whatever these stages may have to do something about."""
        self._bell, self._stages = bell, stages
        self._stopping = False
        context = copy_context()  # such as which kernels are enabled: the loop uses its creator's settings
        self._thread = threading.Thread(target=lambda: context.run(self._run), name=f"rhapsode-{name}", daemon=True)
        self.slow_turns: Counter[str] = Counter()
        """How many turns of each stage were slow."""
        self.longest_turns_s: dict[str, float] = {}
        """The longest turn of each stage."""
        self._turns = 0
        self._current: Underway | None = None

    def start(self) -> None:
        self._thread.start()

    def forget_turns(self) -> None:
        """Sets the count of slow turns and the longest turns back to none."""
        self.slow_turns, self.longest_turns_s = Counter(), {}

    def unfinished(self) -> Iterator[Underway]:
        """Returns the current turn, and the oldest launch of each stage that its device has not ended."""
        if (turn := self._current) is not None:
            yield turn
        for stage in self._stages:
            if (number := stage.oldest_launch()) is not None:
                yield Underway(stage.name, "launch", number, stage.works_inline)

    def stop(self) -> None:
        self._stopping = True
        self._bell.ring()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        _here.is_loop = True
        while not self._stopping:
            self._bell.answer()
            busy = False
            for stage in self._stages:
                busy |= self._timed_turn(stage)
            if not busy:
                self._sleep()

    def _sleep(self) -> None:
        """Waits for a message, or until it is time to check whether a device has finished a launch.

        The stages rest when there has been neither for a while.
        """
        poll_s = min((stage.poll_s for stage in self._stages if stage.poll_s), default=None)
        if poll_s is None and not self._bell.wait(REST_S):
            for stage in self._stages:
                stage.rest()
        if poll_s is None or all(stage.works_inline for stage in self._stages):
            self._bell.wait(poll_s)
            return
        of_device_loops.expect(clock_s() + max(poll_s, LATE_S))
        self._bell.wait(poll_s)
        of_device_loops.expect(inf)

    def _timed_turn(self, stage: TurnStage) -> bool:
        started_s, worked_s, compiled = clock_s(), time.thread_time(), compilations.count()
        self._turns += 1
        self._current = Underway(stage.name, "turn", self._turns, stage.works_inline)
        busy = self._turn(stage)
        self._current = None
        took_s, worked_s = clock_s() - started_s, time.thread_time() - worked_s
        self.longest_turns_s[stage.name] = max(took_s, self.longest_turns_s.get(stage.name, 0.0))
        if took_s > SLOW_S:
            self.slow_turns[stage.name] += 1
            if not stage.works_inline:
                why = ", ".join(compilations.since(compiled)) or "nothing was compiled or captured"
                message = "a turn of stage '%s' took %.0f ms, %.0f of them its thread's own work: %s"
                log.warning(message, stage.name, took_s * 1e3, worked_s * 1e3, why)
        return busy

    @staticmethod
    def _turn(stage: TurnStage) -> bool:
        if not stage.works_inline:
            of_device_loops.take()
        try:
            return stage.turn()
        except Exception as error:  # a bug in a stage must not end the loop and every other request
            for job in stage.jobs():
                job.fail(failure(stage.name, error))
            return True
        finally:
            of_device_loops.leave()
