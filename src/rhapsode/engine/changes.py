"""Tells a stage whether it has to check its rows again."""

from __future__ import annotations

from collections.abc import Callable

from rhapsode.engine.clock import clock_s


class Changes:
    """Detects changes of what a stage bases its decisions on.

    Checking hundreds of rows takes a good part of a millisecond, during which no other thread can run Python, and the
    loop gives the stage a turn every tenth of a millisecond while a launch is in flight. So if nothing has changed but
    the time, the stage checks again only after `again_s`.
    """

    def __init__(self, others: Callable[[], int], again_s: float) -> None:
        """`others` counts the changes that other stages make."""
        self._others = others
        self._again_s = again_s
        self._count = -1
        self._looked_s = 0.0
        self._noted = True

    def note(self) -> None:
        """Notes that the stage itself has changed something."""
        self._noted = True

    def look(self) -> bool:
        """Returns whether to check the rows now. If so, the caller must do it: the changes count as seen."""
        count, now_s = self._others(), clock_s()
        if not self._noted and count == self._count and now_s < self._looked_s + self._again_s:
            return False
        self._noted, self._count, self._looked_s = False, count, now_s
        return True
