"""The engine: request lifecycle, stages, schedulers, slots, graphs, the loop."""

from rhapsode.engine.engine import Engine
from rhapsode.engine.load import Load
from rhapsode.engine.pipeline import Source
from rhapsode.engine.script import SpeechScript
from rhapsode.engine.speech import Speech
from rhapsode.engine.validate import check_length

__all__ = ["Engine", "Load", "Source", "Speech", "SpeechScript", "check_length"]
