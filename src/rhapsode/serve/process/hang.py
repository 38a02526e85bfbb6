"""Finds a device loop that has hung: a turn that does not end, or a launch that its device does not end."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rhapsode.engine import Underway


class HangWatch:
    """Looks at the unfinished turns and launches of an engine, again and again, and names one that takes too long.

    It counts how often it has looked instead of seconds: an engine that was stopped for a while has not hung.
    """

    def __init__(self, unfinished: Callable[[], Iterable[Underway]], most: int, most_inline: int) -> None:
        """`most`: how often a step may be found unfinished; `most_inline`: where the step does its work itself, as on a
        CPU, instead of only launching it."""
        self._unfinished = unfinished
        self._most, self._most_inline = most, most_inline
        self._seen: dict[Underway, int] = {}

    def look(self) -> Underway | None:
        """Returns a step that has been found unfinished too often; None if there is none."""
        self._seen = {step: self._seen.get(step, 0) + 1 for step in self._unfinished()}
        for step, times in self._seen.items():
            if times > (self._most_inline if step.works_inline else self._most):
                return step
        return None
