"""The engine: request lifecycle, stages, schedulers, slots, graphs, the loop. Others import the names of `__all__`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rhapsode.engine.engine import Engine
    from rhapsode.engine.isolation import StageFailed
    from rhapsode.engine.load import Load
    from rhapsode.engine.loop import Underway
    from rhapsode.engine.right_of_way import give_way
    from rhapsode.engine.script import SpeechScript
    from rhapsode.engine.source import Source
    from rhapsode.engine.speech import Controls, Speech

__all__ = ["Controls", "Engine", "Load", "Source", "Speech", "SpeechScript", "StageFailed", "Underway", "give_way"]

_MODULES = {
    "Controls": "speech",
    "Engine": "engine",
    "Load": "load",
    "Source": "source",
    "Speech": "speech",
    "SpeechScript": "script",
    "StageFailed": "isolation",
    "Underway": "loop",
    "give_way": "right_of_way",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used: a process in front of engines needs few of them."""
    if name not in _MODULES:
        raise AttributeError(f"module 'rhapsode.engine' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"rhapsode.engine.{_MODULES[name]}"), name)
