"""Rhapsode: neural text-to-speech, exact and fast, for many listeners at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rhapsode.audio.clip import Audio
    from rhapsode.errors import RhapsodeError
    from rhapsode.tts import TTS
    from rhapsode.types import AudioChunk, Reference, Sampling, SpeechRequest, Voice

__version__ = "0.1.0"
__all__ = [
    "TTS",
    "Audio",
    "AudioChunk",
    "Reference",
    "RhapsodeError",
    "Sampling",
    "SpeechRequest",
    "Voice",
    "__version__",
]

_HOMES = {
    "TTS": "tts",
    "Audio": "audio.clip",
    "RhapsodeError": "errors",
    "AudioChunk": "types",
    "Reference": "types",
    "Sampling": "types",
    "SpeechRequest": "types",
    "Voice": "types",
}


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: `rhapsode --help` must not load an engine."""
    if name not in _HOMES:
        raise AttributeError(f"module 'rhapsode' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"rhapsode.{_HOMES[name]}"), name)
