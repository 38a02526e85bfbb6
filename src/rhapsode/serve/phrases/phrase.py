"""One finished utterance as the model spoke it, before speed, loudness, watermark and format are applied."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from rhapsode.types import AudioChunk, Samples

_MAGIC = b"RHPH\x01"
_DIGEST_BYTES = 32


class BrokenPhrase(Exception):
    """The file does not hold a complete phrase."""


class SampleRun(NamedTuple):
    """Consecutive samples of the same pace, the same kind (speech or pause) and the same speaker."""

    length: int
    pace: float
    is_pause: bool
    speaker: int


@dataclass(frozen=True)
class Phrase:
    """The samples of an utterance, how its parts are to be played, and when it was made."""

    samples: Samples
    sample_rate: int
    runs: tuple[SampleRun, ...]
    frames: int
    made_at: datetime
    """The watermark of a phrase names the time when it was made, not the time when it is said again."""

    @classmethod
    def of(cls, chunks: Sequence[AudioChunk], frames: int) -> Phrase:
        runs: list[SampleRun] = []
        for chunk in chunks:
            run = SampleRun(chunk.samples.shape[1], chunk.pace, chunk.is_pause, chunk.speaker)
            if runs and runs[-1][1:] == run[1:]:
                run = run._replace(length=run.length + runs.pop().length)
            runs.append(run)
        samples = np.concatenate([chunk.samples for chunk in chunks], axis=1)
        return cls(samples, chunks[0].sample_rate, tuple(runs), frames, datetime.now(UTC))

    @property
    def size(self) -> int:
        return int(self.samples.nbytes)

    def chunks(self) -> list[AudioChunk]:
        found, at = [], 0
        for index, run in enumerate(self.runs):
            piece = self.samples[:, at : at + run.length]
            found.append(AudioChunk(piece, self.sample_rate, index, run.pace, run.is_pause, run.speaker))
            at += run.length
        return found

    def to_bytes(self) -> bytes:
        """Returns the phrase as the content of a file, with a digest of itself."""
        about = {
            "channels": self.samples.shape[0],
            "sample_rate": self.sample_rate,
            "runs": self.runs,
            "frames": self.frames,
            "made_at": self.made_at.timestamp(),
        }
        head = json.dumps(about).encode()
        body = struct.pack("<I", len(head)) + head + self.samples.astype("<f4", copy=False).tobytes()
        return _MAGIC + hashlib.sha256(body).digest() + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Phrase:
        """Returns the phrase of a file; raises `BrokenPhrase` unless every byte is as it was written."""
        start = len(_MAGIC) + _DIGEST_BYTES
        body = data[start:]
        if data[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != data[len(_MAGIC) : start]:
            raise BrokenPhrase
        (size,) = struct.unpack_from("<I", body)
        about = json.loads(body[4 : 4 + size])
        samples = np.frombuffer(body, "<f4", offset=4 + size).reshape(about["channels"], -1).astype(np.float32)
        runs = tuple(SampleRun(*run) for run in about["runs"])
        return cls(samples, about["sample_rate"], runs, about["frames"], datetime.fromtimestamp(about["made_at"], UTC))
