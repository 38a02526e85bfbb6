"""Wakes a thread that has nothing to do."""

from __future__ import annotations

import threading


class Bell:
    """Any thread may ring it. Whoever waits answers first and looks then, so nothing that was rung for is missed."""

    def __init__(self) -> None:
        self._rung = threading.Event()

    def ring(self) -> None:
        if not self._rung.is_set():
            self._rung.set()

    def answer(self) -> None:
        self._rung.clear()

    def wait(self, timeout_s: float | None) -> bool:
        """Waits until somebody rings; returns whether somebody has."""
        return self._rung.wait(timeout_s)
