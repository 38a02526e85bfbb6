"""The messages between a server and the process of its engine."""

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


copyreg.pickle(MappingProxyType, lambda proxy: (_frozen, (dict(proxy),)))  # the type of options and lexicons


# --- from the server ---


class Start(NamedTuple):
    """The first message: what to load."""

    deployment: Deployment


class Submit(NamedTuple):
    """Starts a request, which the server has checked (`checking.request.checked`)."""

    request_id: str
    request: SpeechRequest
    client: str


class Append(NamedTuple):
    request_id: str
    text: str
    final: bool


class Abort(NamedTuple):
    request_id: str


class Taken(NamedTuple):
    """The listener has taken this much audio since the last such message."""

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
    """A chunk of audio. Samples that the model made as 16-bit integers are sent as such."""

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
    """The request has ended: no more messages about it follow."""

    outcome: Outcome
    error: RhapsodeError | None


class Embedded(NamedTuple):
    call_id: str
    embedding: tuple[float, ...] | RhapsodeError


class LoadReport(NamedTuple):
    """The current load of the engine. Also sent when nothing has changed, as a sign of life."""

    load: Load


class Loading(NamedTuple):
    """The model is still being loaded: a sign of life."""


class Hung(NamedTuple):
    """A device loop does not get on. `what` completes the sentence "the engine's process has ended: ..."."""

    what: str
