"""Shows how many seconds have been spoken, of an estimated total."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PLAIN_EVERY_S = 10.0
Advance = Callable[[float], None]
"""Adds seconds of speech to the progress."""


@contextmanager
def spoken_progress(expected_s: float, quiet: bool = False) -> Iterator[Advance]:
    """Yields the function that moves a bar on a terminal, or prints a plain line now and then elsewhere."""
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _bar(expected_s) as advance:
            yield advance
    else:
        yield _lines(expected_s)


def _lines(expected_s: float) -> Advance:
    spoken_s, printed_s = 0.0, time.monotonic()

    def advance(seconds: float) -> None:
        nonlocal spoken_s, printed_s
        spoken_s += seconds
        if time.monotonic() - printed_s >= PLAIN_EVERY_S:
            print(f"{spoken_s:.0f} of about {max(expected_s, spoken_s):.0f} s spoken", file=sys.stderr, flush=True)
            printed_s = time.monotonic()

    return advance


@contextmanager
def _bar(expected_s: float) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    spoken = TextColumn("{task.completed:.1f} of about {task.total:.0f} s spoken")
    left = (TextColumn("left:"), TimeRemainingColumn())
    with Progress(spoken, BarColumn(), TimeElapsedColumn(), *left, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("speaking", total=max(expected_s, 1.0))
        spoken_s = 0.0

        def advance(seconds: float) -> None:
            nonlocal spoken_s
            spoken_s += seconds
            bar.update(task, completed=spoken_s, total=max(expected_s, spoken_s * 1.05, 1.0))

        yield advance
