"""Named sections of the engine's work: the code marks them, a measurement installs a recorder that times them.

Without a recorder a mark does nothing. Marks run no tensor operators, so they are safe inside a traced or captured
launch and in any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from functools import cache
from typing import Any, Protocol


class Recorder(Protocol):
    """Is told of each section by the thread that runs it. Sections of one thread nest."""

    def begin(self, name: str) -> None: ...

    def end(self) -> None:
        """Ends the innermost section. Without one it does nothing: that section began before the recording."""

    def captured(self) -> Any:
        """Returns the marks of the graph this thread has just captured, or `None` if it has none."""

    def replayed(self, marks: Any) -> None:
        """The graph with these marks has been launched again."""


_recorder: Recorder | None = None


class Mark(ContextDecorator):
    """A context manager, or a decorator for a whole function. It keeps no state, so threads may share it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        recorder = _recorder  # read once: another thread may remove it
        if recorder is not None:
            recorder.begin(self._name)

    def __exit__(self, *_: object) -> None:
        recorder = _recorder
        if recorder is not None:
            recorder.end()


@cache
def section(name: str) -> Mark:
    """Marks what runs inside: `with section("talker"): ...` or `@section("sampling")`."""
    return Mark(name)


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Installs a recorder for all threads of this process. One at a time: an inner one replaces the outer one."""
    global _recorder
    before, _recorder = _recorder, recorder
    try:
        yield
    finally:
        _recorder = before


def captured() -> Any:
    """For the graph wrapper: the marks that became nodes of the graph just captured. They must live as long as it."""
    recorder = _recorder
    return None if recorder is None else recorder.captured()


def replayed(marks: Any) -> None:
    """For the graph wrapper, after each replay of a graph with these marks."""
    recorder = _recorder
    if marks is not None and recorder is not None:
        recorder.replayed(marks)
