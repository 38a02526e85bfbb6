"""Who goes first where threads share Python's lock: the device loop, while it is in a turn for a GPU.

All listeners wait for its turns, which take a few milliseconds. Threads that read and prepare requests have plenty to
do when a crowd comes, and would keep the lock for as long as they may.
"""

from __future__ import annotations

import threading
from math import inf

from rhapsode.engine.clock import clock_s

MOST_S, WORK_S = 0.005, 0.001
"""How long others wait at most, and how long they then work before they wait again: else long turns would leave them
nothing."""
LATE_S = 0.01
"""How late a loop that sleeps may come back before others give way to it. Its work is small beside theirs, and costs
less when more of it comes together."""


class _Gave(threading.local):
    """When each thread last gave way."""

    at_s = 0.0


class RightOfWay:
    """A loop takes it for each turn; others give way before each small piece of work.

    A loop that sleeps until it looks at the device again has to get Python's lock first, and a thread that lets go of
    the lock often, for a moment each time, keeps all others from it. So the loop says before it sleeps when it should
    be back at the latest, and from then on the others give way, too.

    It is no lock: whoever does not ask goes on, and if two loops take turns, the others wait for one of them.
    """

    def __init__(self) -> None:
        self._is_taken = self._is_awaited = False
        self._expected_s = inf
        self._left = threading.Event()
        self._gave = _Gave()

    def take(self) -> None:
        self._is_taken = True

    def expect(self, at_s: float) -> None:
        """Says that the loop, which goes to sleep now, should be back at this moment; infinite: nobody waits for it."""
        self._expected_s = at_s

    def leave(self) -> None:
        self._is_taken = False
        if self._is_awaited:
            self._is_awaited = False
            self._left.set()

    def give(self) -> None:
        """Waits for the end of a turn, if there is one or is to be one, and this thread has not just done so."""
        now_s = clock_s()
        if not (self._is_taken or now_s > self._expected_s) or now_s < self._gave.at_s + WORK_S:
            return
        self._left.clear()
        self._is_awaited = True
        if self._is_taken or now_s > self._expected_s:
            self._left.wait(MOST_S)
        self._gave.at_s = clock_s()


of_device_loops = RightOfWay()
