"""Audio as users hold it: samples that can be saved, opened and heard."""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rhapsode.audio.decode import decode
from rhapsode.audio.encode import encode
from rhapsode.audio.formats import format_of
from rhapsode.errors import InvalidRequest, OutputError
from rhapsode.types import Clip

# A file the user opens is the user's own: the limits only keep memory within reason.
_OPEN_MAX_BYTES = 2 * 2**30
_OPEN_MAX_DURATION_S = 4 * 3600.0


@dataclass(frozen=True, repr=False, eq=False)
class Audio(Clip):
    """A clip of speech that can be saved, and heard in a notebook."""

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, sample_rate: int | None = None) -> Audio:
        """Reads an audio file, at its own sample rate unless another is asked for."""
        clip = decode(
            Path(path),
            max_bytes=_OPEN_MAX_BYTES,
            max_duration_s=_OPEN_MAX_DURATION_S,
            sample_rate=sample_rate,
            mono=False,
        )
        return cls(clip.samples, clip.sample_rate)

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> Path:
        """Writes one of the six formats, as the extension or `format` says: the whole file or none of it."""
        target = Path(path)
        try:
            fmt = format_of(format) if format else format_of(target)
        except InvalidRequest as error:
            raise OutputError(error.message, param="format") from None
        if target.is_dir():
            raise OutputError(f"Cannot save to '{target}': it is a directory.")
        if target.exists() and not target.is_file():
            raise OutputError(f"Cannot save to '{target}': it is not a regular file.")
        if not target.parent.is_dir():
            raise OutputError(f"Cannot save to '{target}': the directory '{target.parent}' does not exist.")
        _write_atomically(target, encode(self, fmt))
        return target

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Clip):
            return NotImplemented
        return self.sample_rate == other.sample_rate and np.array_equal(self.samples, other.samples)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        channels = {1: "mono", 2: "stereo"}.get(self.channels, f"{self.channels} channels")
        return f"Audio({self.duration_s:.2f} s, {self.sample_rate} Hz, {channels})"

    def _repr_html_(self) -> str:
        """A player, in notebooks."""
        data = base64.b64encode(encode(self, "wav")).decode("ascii")
        return f'<audio controls src="data:audio/wav;base64,{data}"></audio>'


def _write_atomically(target: Path, data: bytes) -> None:
    target = target.resolve()  # a link keeps pointing where it points
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
        os.replace(temporary, target)
    except OSError as error:
        raise OutputError(f"Cannot save to '{target}': {error.strerror or error}.") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
