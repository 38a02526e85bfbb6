"""The file that audio is written to: checked before anything is spoken, and nothing spoken is lost."""

from __future__ import annotations

import secrets
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rhapsode.errors import OutputError

if TYPE_CHECKING:
    from rhapsode.audio.clip import Audio


@dataclass(frozen=True)
class Listened:
    """Where the audio goes: its file and format, and whether and when it is played."""

    output: str
    format: str | None
    live: bool
    play: bool
    quiet: bool
    subtitles: Path | None = None


def check_output(output: str, format: str | None, subtitles: Path | None = None) -> None:
    """Raises, before anything is spoken, if the result cannot be written."""
    from rhapsode.audio.formats import format_of

    if subtitles is not None:
        _check_subtitles(subtitles)
    if output == "-":
        if sys.stdout.isatty():
            raise OutputError("audio is not for a terminal: pipe it, or give a file with -o.")
        format_of(format or "wav")
        return
    path = Path(output)
    format_of(format or path)
    check_folder(path)


def check_folder(path: Path) -> None:
    """Raises if a file cannot be written at this path."""
    output = str(path)
    try:
        if path.is_dir():
            raise OutputError(f"cannot write {output}: it is a directory.")
        if not path.absolute().parent.is_dir():
            raise OutputError(f"cannot write {output}: the directory {path.absolute().parent} does not exist.")
        if not _is_writable(path.absolute().parent):
            raise OutputError(f"cannot write {output}: the directory {path.absolute().parent} is not writable.")
        if path.exists() and not path.is_file():
            raise OutputError(f"cannot write {output}: it is not a regular file.")
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write there: {getattr(error, 'strerror', None) or error}.") from None


def _is_writable(folder: Path) -> bool:
    """Returns whether a file can be made there; permissions alone do not tell, such as on a read-only disk."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _check_subtitles(file: Path) -> None:
    from rhapsode.alignment.subtitles import subtitle_kind

    subtitle_kind(file)
    check_folder(file)


def save_subtitles(audio: Audio, text: str, input_type: str, file: Path) -> None:
    """Writes the words of the audio as subtitles."""
    from rhapsode.alignment.shown import shown_words
    from rhapsode.alignment.subtitles import cues, subtitle_kind, subtitles

    content = subtitles(cues(shown_words(text, audio.words, input_type)), subtitle_kind(file))
    try:
        file.write_text(content, "utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {file}: {error.strerror or error}.") from None


def save(audio: Audio, output: str, format: str | None) -> None:
    """Saves the audio; if that fails, for instance on a full disk, keeps it in the temporary folder."""
    try:
        audio.save(output, format)
    except OutputError as error:
        kept = Path(tempfile.gettempdir()) / f"rhapsode-{secrets.token_hex(4)}.wav"
        try:
            audio.save(kept)
        except OutputError:
            raise error from None
        raise OutputError(f"{error.message} The audio was kept in {kept}.") from None
