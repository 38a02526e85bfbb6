"""Priority among threads that share Python's lock: a device loop in a turn for a GPU goes first.

All listeners wait for its turns, which take a few milliseconds. Under load, threads that read and prepare requests have
much to do, and would keep the lock for as long as they may.
"""

from __future__ import annotations

import threading
from math import inf

from rhapsode.engine.clock import clock_s

MOST_S, WORK_S = 0.005, 0.001
"""How long other threads wait at most, and how long they then work before they wait again: otherwise long turns would
leave them no time."""
LATE_S = 0.01
"""How late a sleeping loop may wake up before other threads give way to it. Its work is small beside theirs, and costs
less if more of it is done together."""


class _Gave(threading.local):
    """When each thread last gave way."""

    at_s = 0.0


class RightOfWay:
    """The right to run first. A loop takes it for each turn; other threads give way before each small piece of work.

    A loop that wakes up to check the device needs Python's lock first, and a thread that releases the lock often, for a
    moment each time, keeps all others from it. So the loop says before it sleeps when it should be back at the latest,
    and from that moment on other threads give way, too.

    It is no lock: a thread that does not call `give` goes on, and if two loops take turns, others wait for one of them.
    """

    def __init__(self) -> None:
        self._is_taken = self._is_awaited = False
        self._expected_s = inf
        self._left = threading.Event()
        self._gave = _Gave()

    def take(self) -> None:
        self._is_taken = True

    def expect(self, at_s: float) -> None:
        """Says that the loop, which sleeps now, should be back at this moment; infinite: no thread gives way to it."""
        self._expected_s = at_s

    def leave(self) -> None:
        self._is_taken = False
        if self._is_awaited:
            self._is_awaited = False
            self._left.set()

    def give(self) -> None:
        """Waits for the end of the current or overdue turn, if there is one, unless this thread has just waited."""
        now_s = clock_s()
        if not (self._is_taken or now_s > self._expected_s) or now_s < self._gave.at_s + WORK_S:
            return
        self._left.clear()
        self._is_awaited = True
        if self._is_taken or now_s > self._expected_s:
            self._left.wait(MOST_S)
        self._gave.at_s = clock_s()


of_device_loops = RightOfWay()


def give_way() -> None:
    """Waits while a device loop of this process has the right to run first. To be called before each small piece of
    work, by a thread that has much of it."""
    of_device_loops.give()
