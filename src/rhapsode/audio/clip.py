"""The audio object of the Python API: it opens files, saves them and plays in notebooks."""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rhapsode.audio.decode import decode
from rhapsode.audio.encode import FileMarks, encode
from rhapsode.audio.formats import format_of
from rhapsode.errors import InvalidRequest, OutputError
from rhapsode.types import Clip

if TYPE_CHECKING:
    from rhapsode.alignment.words import BookmarkTime, WordTime

# The user opens a file of their own, so these limits only protect memory.
_OPEN_MAX_BYTES = 2 * 2**30
_OPEN_MAX_DURATION_S = 4 * 3600.0


@dataclass(frozen=True, repr=False, eq=False)
class Audio(Clip):
    """A clip that can be opened from a file, saved to one and played in a notebook."""

    marks: FileMarks | None = None
    """What is written into a saved file beside the audio."""
    words: tuple[WordTime, ...] = ()
    """When each word is heard, where that was asked for."""
    bookmarks: tuple[BookmarkTime, ...] = ()
    """When each `<mark>` of SSML is reached, where words were asked for."""

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, sample_rate: int | None = None) -> Audio:
        """Reads an audio file, at its own sample rate unless `sample_rate` is given."""
        clip = decode(
            Path(path),
            max_bytes=_OPEN_MAX_BYTES,
            max_duration_s=_OPEN_MAX_DURATION_S,
            sample_rate=sample_rate,
            mono=False,
        )
        return cls(clip.samples, clip.sample_rate)

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> Path:
        """Writes a file in the format of its extension or of `format`. If this fails, an existing file is unchanged."""
        file = Path(path)
        try:
            fmt = format_of(format) if format else format_of(file)
        except InvalidRequest as error:
            raise OutputError(error.message, param="format") from None
        if file.is_dir():
            raise OutputError(f"Cannot save to '{file}': it is a directory.")
        if file.exists() and not file.is_file():
            raise OutputError(f"Cannot save to '{file}': it is not a regular file.")
        if not file.parent.is_dir():
            raise OutputError(f"Cannot save to '{file}': the directory '{file.parent}' does not exist.")
        _write_atomically(file, encode(self, fmt, self.marks))
        return file

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Clip):
            return NotImplemented
        return self.sample_rate == other.sample_rate and np.array_equal(self.samples, other.samples)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        channels = {1: "mono", 2: "stereo"}.get(self.channels, f"{self.channels} channels")
        return f"Audio({self.duration_s:.2f} s, {self.sample_rate} Hz, {channels})"

    def _repr_html_(self) -> str:
        """Returns an audio player for notebooks."""
        data = base64.b64encode(encode(self, "wav", self.marks)).decode("ascii")
        return f'<audio controls src="data:audio/wav;base64,{data}"></audio>'


def _write_atomically(path: Path, data: bytes) -> None:
    path = path.resolve()  # write the file that a link points to, and keep the link
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError as error:
        raise OutputError(f"Cannot save to '{path}': {error.strerror or error}.") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
