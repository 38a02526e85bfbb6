"""Recordings of voices that are named by their file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rhapsode.errors import BadAudio

if TYPE_CHECKING:
    from rhapsode.types import Clip

SUFFIXES = (".wav", ".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac", ".aif", ".aiff", ".webm", ".wma")


def is_recording(voice: str) -> bool:
    """Returns whether this is the name of a recording, and not of a voice."""
    return voice.lower().endswith(SUFFIXES)


def heard(file: Path) -> Clip:
    """Returns the audio of a file; an error names the file."""
    from rhapsode.audio.decode import decode  # which a bare GPU machine cannot import

    try:
        return decode(file, mono=False)
    except BadAudio as error:
        named = error.message if str(file) in error.message else f"{file}: {error.message}"
        raise BadAudio(named) from None
