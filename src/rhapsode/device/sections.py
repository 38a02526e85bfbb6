"""Named sections of the engine's work: the code marks them, a measurement installs a recorder that times them.

Without a recorder a section does nothing. It runs no tensor operators, so it is safe inside a traced or captured launch
and in any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from functools import cache
from typing import Any, Protocol


class Recorder(Protocol):
    """Receives the begin and end of each section, in the thread that runs it. Sections of one thread nest."""

    def begin(self, name: str) -> None: ...

    def end(self) -> None:
        """Ends the innermost section. Without one it does nothing: that section began before the recording."""

    def captured(self) -> Any:
        """Returns the events of the sections in the graph this thread has just captured, or `None` without any."""

    def replayed(self, events: Any) -> None:
        """Notes that the graph with these events has been launched again."""


_recorder: Recorder | None = None


class SectionScope(ContextDecorator):
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
def section(name: str) -> SectionScope:
    """Marks what runs inside: `with section("talker"): ...` or `@section("sampling")`."""
    return SectionScope(name)


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Installs a recorder for all threads of this process. Only one is active: an inner one replaces the outer one."""
    global _recorder
    before, _recorder = _recorder, recorder
    try:
        yield
    finally:
        _recorder = before


def captured() -> Any:
    """For the graph wrapper: returns the section events inside the graph just captured, to be kept with it."""
    recorder = _recorder
    return None if recorder is None else recorder.captured()


def replayed(events: Any) -> None:
    """For the graph wrapper: notes that a graph with these events has been replayed."""
    recorder = _recorder
    if events is not None and recorder is not None:
        recorder.replayed(events)
