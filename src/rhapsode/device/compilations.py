"""Counts what must not happen while listeners wait: kernels that are compiled, and launches that are captured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CAPTURE = "capture of"
_events: list[str] = []
_spent_s: dict[str, float] = {}
_watching = False


def watch() -> None:
    """Counts the kernels that Triton compiles, or loads from its cache, from now on."""
    global _watching
    if _watching:
        return
    _watching = True
    try:
        from triton import knobs
    except ImportError:  # no Triton, or one without this hook: only captures are counted
        return

    def compiled(*_: Any, fn: Any = None, **__: Any) -> None:
        _events.append(f"kernel {getattr(fn, 'name', fn)}")

    knobs.runtime.jit_post_compile_hook = compiled


def captured(what: str) -> None:
    """Counts a captured launch."""
    _events.append(f"{CAPTURE} {what}")


def spent(what: str, seconds: float) -> None:
    """Adds to the time that a part of capturing has taken."""
    _spent_s[what] = _spent_s.get(what, 0.0) + seconds


def spent_s() -> dict[str, float]:
    """Returns the seconds that each part of capturing has taken so far."""
    return dict(_spent_s)


def count() -> int:
    """Returns how many kernels were compiled and launches captured so far."""
    return len(_events)


def since(mark: int) -> Sequence[str]:
    """Returns what was compiled or captured since `count` returned this number."""
    return _events[mark:]
