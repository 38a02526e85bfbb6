"""What a server and the process of its engine tell each other."""

from __future__ import annotations

import copyreg
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rhapsode.alignment.words import BookmarkTime, WordTime
from rhapsode.config import Deployment
from rhapsode.engine import Load
from rhapsode.errors import RhapsodeError
from rhapsode.types import AudioChunk, Clip, ModelInfo, Outcome, Samples, SpeechRequest


def _frozen(content: dict[str, Any]) -> MappingProxyType[str, Any]:
    return MappingProxyType(content)


copyreg.pickle(MappingProxyType, lambda proxy: (_frozen, (dict(proxy),)))  # options and lexicons are such


# --- from the server ---


class Start(NamedTuple):
    """The first message: what to load."""

    deployment: Deployment


class Submit(NamedTuple):
    """Start this request. The server has checked it (`validate.checked`)."""

    request_id: str
    request: SpeechRequest


class Append(NamedTuple):
    request_id: str
    text: str
    final: bool


class Abort(NamedTuple):
    request_id: str


class Taken(NamedTuple):
    """The listener has taken so much audio."""

    request_id: str
    seconds: float


class Embed(NamedTuple):
    call_id: str
    clip: Clip


class Stop(NamedTuple):
    """The last message."""


# --- from the engine ---


class EngineReady(NamedTuple):
    """The model is loaded and warm."""

    info: ModelInfo
    load: Load
    device: str


class Failed(NamedTuple):
    """The model cannot be loaded."""

    error: RhapsodeError


class Accepted(NamedTuple):
    request_id: str


class Refused(NamedTuple):
    request_id: str
    error: RhapsodeError


class SpokenChunk(NamedTuple):
    """A chunk. Samples that were 16-bit numbers travel as such."""

    request_id: str
    samples: Samples | None
    pcm16: NDArray[np.int16] | None
    about: tuple[int, int, float, bool, int]
    words: tuple[WordTime, ...]
    bookmarks: tuple[BookmarkTime, ...]

    @classmethod
    def of(cls, request_id: str, chunk: AudioChunk) -> SpokenChunk:
        samples = chunk.samples if chunk.pcm16 is None else None
        about = (chunk.sample_rate, chunk.index, chunk.pace, chunk.is_pause, chunk.speaker)
        return cls(request_id, samples, chunk.pcm16, about, chunk.words, chunk.bookmarks)

    def chunk(self) -> AudioChunk:
        about = (*self.about, self.words, self.bookmarks)
        if self.pcm16 is not None:
            return AudioChunk.of_pcm16(self.pcm16, *about)
        assert self.samples is not None
        return AudioChunk(self.samples, *about)


class Ended(NamedTuple):
    """Nothing more of this request follows."""

    outcome: Outcome
    error: RhapsodeError | None


class Embedded(NamedTuple):
    call_id: str
    embedding: tuple[float, ...] | RhapsodeError


class LoadReport(NamedTuple):
    """How full the engine is now."""

    load: Load
