"""Recordings of voices to clone, as commands take them: files, and their transcripts in the same order."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rhapsode.audio.recordings import heard, is_recording
from rhapsode.errors import InvalidRequest

if TYPE_CHECKING:
    from rhapsode.types import Voice


def parted(voices: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Separates the names of voices from recordings that are given in place of a name."""
    files = [voice for voice in voices if is_recording(voice) and "=" not in voice]
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
    return Voice(name=name, references=tuple(Reference(heard(file), text) for file, text in references))


def as_fields(references: Sequence[tuple[Path, str | None]]) -> list[dict[str, Any]] | None:
    """Returns `references` of the HTTP API, each recording in a data: URL; `None` without any."""
    return [{"audio": _data_url(file), **({"text": text} if text else {})} for file, text in references] or None


def _data_url(file: Path) -> str:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"cannot read {file}: {error.strerror}.") from None
    return f"data:audio/{file.suffix.removeprefix('.') or 'wav'};base64,{base64.b64encode(data).decode()}"
