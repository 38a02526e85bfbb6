"""The engine: request lifecycle, stages, schedulers, slots, graphs, the loop."""

from rhapsode.engine.engine import Engine, Load
from rhapsode.engine.pipeline import Source
from rhapsode.engine.speech import Speech

__all__ = ["Engine", "Load", "Source", "Speech"]
