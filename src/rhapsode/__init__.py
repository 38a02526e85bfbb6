"""Rhapsode: an engine and server for neural text-to-speech."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rhapsode.alignment.words import WordTime
    from rhapsode.audio.clip import Audio
    from rhapsode.errors import RhapsodeError
    from rhapsode.tts import TTS
    from rhapsode.types import AudioChunk, Reference, Sampling, Segment, SpeechRequest, Voice

__version__ = "0.1.0"
__all__ = [
    "TTS",
    "Audio",
    "AudioChunk",
    "Reference",
    "RhapsodeError",
    "Sampling",
    "Segment",
    "SpeechRequest",
    "Voice",
    "WordTime",
    "__version__",
]

_MODULES = {
    "TTS": "tts",
    "Audio": "audio.clip",
    "RhapsodeError": "errors",
    "AudioChunk": "types",
    "Reference": "types",
    "Sampling": "types",
    "Segment": "types",
    "SpeechRequest": "types",
    "Voice": "types",
    "WordTime": "alignment.words",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that `rhapsode --help` does not load the engine."""
    if name not in _MODULES:
        raise AttributeError(f"module 'rhapsode' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"rhapsode.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
