"""Recordings of voices to clone, as commands take them: files, and their transcripts in the same order."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rhapsode.errors import BadAudio, InvalidRequest

if TYPE_CHECKING:
    from rhapsode.types import Clip, Voice


AUDIO = (".wav", ".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac", ".aif", ".aiff", ".webm", ".wma")
"""Extensions that mark a `--voice` as a recording, not as the name of a voice."""


def parted(voices: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Separates the names of voices from recordings that are given in place of a name."""
    files = [voice for voice in voices if voice.lower().endswith(AUDIO) and "=" not in voice]
    return [voice for voice in voices if voice not in files], list(map(Path, files))


def paired(files: Sequence[Path], texts: Sequence[str]) -> list[tuple[Path, str | None]]:
    """Returns every file with its transcript; either all of them have one, or none has."""
    if texts and len(texts) != len(files):
        raise InvalidRequest(
            f"there are {len(texts)} --reference-text for {len(files)} --reference: give one each, or none."
        )
    transcripts: Sequence[str | None] = texts or [None] * len(files)
    return list(zip(files, transcripts, strict=True))


def voice_of(name: str | None, references: Sequence[tuple[Path, str | None]]) -> Voice:
    """Returns the voice to speak with: a clone of the recordings, or without recordings the preset `name`."""
    from rhapsode.types import Reference, Voice

    if not references:
        return Voice(name=name)
    return Voice(name=name, references=tuple(Reference(_heard(file), text) for file, text in references))


def as_fields(references: Sequence[tuple[Path, str | None]]) -> list[dict[str, Any]] | None:
    """Returns `references` of the HTTP API, each recording in a data: URL; `None` without any."""
    return [{"audio": _data_url(file), **({"text": text} if text else {})} for file, text in references] or None


def _heard(file: Path) -> Clip:
    from rhapsode.audio.decode import decode  # which a bare GPU machine cannot import

    try:
        return decode(file, mono=False)
    except BadAudio as error:
        named = error.message if str(file) in error.message else f"{file}: {error.message}"
        raise BadAudio(named) from None


def _data_url(file: Path) -> str:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"cannot read {file}: {error.strerror}.") from None
    return f"data:audio/{file.suffix.removeprefix('.') or 'wav'};base64,{base64.b64encode(data).decode()}"
