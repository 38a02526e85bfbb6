"""Loads a model while a line shows the step and the time; Ctrl-C ends the command at once."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
TICK_S = 0.1
PLAIN_EVERY_S = 10.0
"""How often a line is printed if standard error is not a terminal."""


def load(open_model: Callable[[], T], quiet: bool = False) -> T:
    """Runs `open_model` in a thread and returns its result. In this thread, imports and weights would delay Ctrl-C."""
    from rhapsode.loading import LOGGER

    steps, show = _Steps(), _Line(quiet)
    logger = logging.getLogger(LOGGER)
    logger.addHandler(steps)
    logger.setLevel(logging.INFO)
    loader = _LoadingThread(open_model)
    loader.start()
    try:
        while loader.is_alive():
            loader.join(TICK_S)
            show.update(steps.current)
    except KeyboardInterrupt:
        show.clear()
        print("rhapsode: interrupted.", file=sys.stderr, flush=True)
        os._exit(130)  # the thread cannot be stopped, and it has written nothing
    finally:
        logger.removeHandler(steps)
        show.clear()
    return loader.result()


class _LoadingThread(threading.Thread, Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__(name="load-model", daemon=True)
        self._work = work
        self._done: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._done.append(self._work())
        except BaseException as error:
            self._error = error

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._done[0]


class _Steps(logging.Handler):
    """Keeps the last step that was reported."""

    def __init__(self) -> None:
        super().__init__()
        self.current = "libraries"

    def emit(self, record: logging.LogRecord) -> None:
        self.current = str(vars(record).get("fields", {}).get("step", record.getMessage()))


class _Line:
    """Rewrites one line on a terminal; elsewhere prints a plain line now and then, and none for a quick load."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._is_terminal = quiet, sys.stderr.isatty()
        self._started_s = self._printed_s = time.monotonic()
        self._width = 0

    def update(self, step: str) -> None:
        now_s = time.monotonic()
        text = f"loading: {step}, {now_s - self._started_s:.0f} s"
        if self._quiet:
            return
        if self._is_terminal:
            print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)
            self._width = max(self._width, len(text))
        elif now_s - self._printed_s >= PLAIN_EVERY_S:
            print(text, file=sys.stderr, flush=True)
            self._printed_s = now_s

    def clear(self) -> None:
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)
            self._width = 0
