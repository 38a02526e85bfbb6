"""The words of the house as frozen data, shared by every layer. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rhapsode.errors import RhapsodeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Samples = NDArray[np.float32]  # [channels, samples], full scale is 1.0
else:
    Samples = Any  # numpy takes its time to import, and a type needs none of it


@dataclass(frozen=True)
class Clip:
    """Samples and the rate they play at."""

    samples: Samples
    sample_rate: int

    @property
    def channels(self) -> int:
        return int(self.samples.shape[0])

    @property
    def duration_s(self) -> float:
        return float(self.samples.shape[1] / self.sample_rate)


@dataclass(frozen=True)
class AudioChunk(Clip):
    """A run of samples handed to the listener: always a delta, never a repeat."""

    index: int = 0


@dataclass(frozen=True)
class Reference:
    """A recording of a voice to clone, and its transcript where there is one."""

    audio: Clip
    text: str | None = None


@dataclass(frozen=True)
class Voice:
    """What an utterance should sound like. Set one of `name`, `reference`, `embedding` or `description`."""

    name: str | None = None
    reference: Clip | None = None
    reference_text: str | None = None
    embedding: tuple[float, ...] | None = None
    description: str | None = None
    continued: Reference | None = None
    """A recording that the utterance continues, with its transcript: alone, or beside a reference."""


@dataclass(frozen=True)
class Sampling:
    """How the talker draws; `None` means: as the family does by default."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None

    def over(self, defaults: Sampling) -> Sampling:
        """These settings where they are set, `defaults` where they are not."""
        return replace(defaults, **{k: v for k, v in vars(self).items() if v is not None})


@dataclass(frozen=True)
class SpeechRequest:
    """One utterance to be spoken, with everything the user asked for and nothing filled in."""

    text: str
    voice: Voice = field(default_factory=Voice)
    language: str | None = None
    instructions: str | None = None
    speed: float = 1.0
    seed: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    max_frames: int | None = None
    first_chunk_frames: int | None = None
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    text_open: bool = False
    """More text will be appended while this is spoken."""


class FinishReason(StrEnum):
    """How a request ended."""

    STOP = "stop"
    LENGTH = "length"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """How a request went, once it is over."""

    request_id: str
    finish_reason: FinishReason
    audio_s: float
    frames: int
    queued_s: float
    first_audio_s: float | None
    total_s: float
    underruns: int = 0
    """Times a listener who plays from the first chunk on would have run dry."""
    longest_gap_s: float = 0.0
    """The longest wait between two chunks."""
    error: RhapsodeError | None = None


@dataclass(frozen=True)
class Capabilities:
    """What a family can do for a voice or a text."""

    presets: bool = False
    clone: bool = False
    continuation: bool = False
    embedding: bool = False
    design: bool = False
    text_stream: bool = False

    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in fields(self) if getattr(self, f.name))
