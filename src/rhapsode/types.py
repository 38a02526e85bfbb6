"""Frozen dataclasses that every layer shares. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self

from rhapsode.errors import RhapsodeError
from rhapsode.sampling_table import Sampling as Sampling

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rhapsode.alignment.words import BookmarkTime, WordTime

    Samples = NDArray[np.float32]  # [channels, samples], full scale is 1.0
else:
    Samples = Any  # importing numpy takes time, and only type checkers need it


@dataclass(frozen=True)
class Clip:
    """Audio: samples `[channels, n]`, and how many of them are played per second."""

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
    """The next samples of an utterance: chunks never overlap and never repeat."""

    index: int = 0
    pace: float = 1.0
    """The playback speed of these samples, relative to the rest of the utterance. The pitch stays the same."""
    is_pause: bool = False
    """Whether the samples are a pause that the text asks for: silence whose length no speed changes."""
    speaker: int = 0
    """The number of the voice, in a dialogue, that says these samples. The loudness of each voice is set separately."""
    words: tuple[WordTime, ...] = ()
    """Words whose times are known now, where a request asks for them. Such a chunk may have no samples."""
    bookmarks: tuple[BookmarkTime, ...] = ()
    """SSML bookmarks (`<mark>`) that the speech has reached, where a request asks for words."""
    pcm16: NDArray[np.int16] | None = None
    """The same samples as 16-bit numbers, where a GPU has made them. Code that changes `samples` sets this to None."""

    @classmethod
    def of_pcm16(cls, pcm16: Any, *about: Any) -> Self:
        """Makes a chunk of 16-bit numbers. They are converted to `samples` only when these are read, which is rare."""
        chunk = object.__new__(cls)  # the class has the defaults; setting each field of a frozen one takes longer
        vars(chunk).update(zip([*cls.__dataclass_fields__][1:], about, strict=False), pcm16=pcm16)
        return chunk

    def __getattr__(self, name: str) -> Any:
        if name != "samples" or self.pcm16 is None:
            raise AttributeError(name)
        vars(self)["samples"] = self.pcm16.astype("float32") / 32768  # as `audio.samples.from_pcm16`
        return self.samples

    @property
    def duration_s(self) -> float:
        return float((self.samples if self.pcm16 is None else self.pcm16).shape[1] / self.sample_rate)


@dataclass(frozen=True)
class Reference:
    """A recording of a voice to clone, and its transcript where there is one."""

    audio: Clip
    text: str | None = None
    sha256: str | None = None
    """The hash of the file that the recording came from, for the audit log."""


@dataclass(frozen=True)
class Voice:
    """What an utterance should sound like. Set one of `name`, `references`, `embedding` or `description`.

    Some families take an embedding beside references (`Capabilities.reference_embedding`).
    """

    name: str | None = None
    """A preset of the checkpoint."""
    references: tuple[Reference, ...] = ()
    embedding: tuple[float, ...] | None = None
    description: str | None = None
    continued: Reference | None = None
    """A recording that the utterance continues, with its transcript: alone, or beside a reference."""

    @classmethod
    def cloned(cls, audio: Clip, text: str | None = None) -> Self:
        """The voice of one recording, with its transcript where there is one."""
        return cls(references=(Reference(audio, text),))


@dataclass(frozen=True)
class Segment:
    """A part of a dialogue: what one voice says, after a pause."""

    text: str
    voice: Voice = field(default_factory=Voice)
    """A `Voice`, or the name of a preset."""
    pause_s: float | None = None
    """The silence before the segment; by default a short one, and none before the first segment."""

    def __post_init__(self) -> None:
        if isinstance(self.voice, str):
            object.__setattr__(self, "voice", Voice(name=self.voice))


@dataclass(frozen=True)
class SpeechRequest:
    """One utterance to speak: what the user asked for, without any defaults filled in."""

    text: str
    voice: Voice = field(default_factory=Voice)
    language: str | None = None
    instructions: str | None = None
    speed: float = 1.0
    loudness: float | None = None
    """In LUFS, -40 to -10; `None` keeps the loudness of the model. Like speed, it is applied after the model."""
    volume: float = 1.0  # 0 to 10: samples are multiplied by it, after the loudness
    channels: int | None = None
    """1 is mono, 2 is stereo; `None`: as the model makes. Only `TTS` applies it; the server has a field of its own."""
    seed: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    max_frames: int | None = None
    first_chunk_frames: int | None = None  # a GPU takes the next smaller size that it has captured
    options: Any = field(default_factory=lambda: MappingProxyType({}))
    """The family's own options by name, checked once; its stages find an instance of its `ModelSpec.options` here."""
    segments: tuple[Segment, ...] = ()
    """A dialogue, in place of `text` and `voice`: all of it is one request."""
    text_open: bool = False
    """More text will be appended while the request is spoken."""
    real_time: bool = False
    """Whether a listener plays the speech while it is made: it must then be made faster than it plays."""
    normalise: bool | None = None
    """Whether numbers, dates and the like are written out as words; `None`: only if the model needs it."""
    input_type: str = "text"
    """What the text is: `text`, `ssml`, `markdown` or `html`."""
    lexicon: Any = field(default_factory=lambda: MappingProxyType({}))
    """Respellings by word; they override those of the deployment."""
    word_timestamps: bool | Literal["auto"] = False
    """Measure when each word is heard: `AudioChunk.words`. `auto`: if the aligner knows the language."""
    end_detection: bool | None = None
    """Whether to end speech that goes on after its last word; `None`: the deployment decides."""


class FinishReason(StrEnum):
    """How a request ended."""

    STOP = "stop"
    LENGTH = "length"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass(frozen=True)
class SpeechQuality:
    """How much of the text was heard in the audio, where that was measured."""

    words: int  # of the text, that the alignment looked for
    unheard: int  # of these words
    reached_end: bool  # whether the speech reached the end of the text
    ended_early: bool = False
    """Whether the speech went on after its last word, and was ended there."""


@dataclass(frozen=True)
class Outcome:
    """The result of a finished request: why it ended, and how long each phase took."""

    request_id: str
    finish_reason: FinishReason
    audio_s: float
    frames: int
    queued_s: float
    first_audio_s: float | None
    total_s: float
    prepared_s: float | None = None
    first_frame_s: float | None = None
    underruns: int = 0
    """How often playback would have run out of audio, if it had started with the first chunk."""
    longest_gap_s: float = 0.0
    """The longest time between two chunks."""
    error: RhapsodeError | None = None
    quality: SpeechQuality | None = None
    """Measured where a request asks for word timestamps, or where its end is detected."""


@dataclass(frozen=True)
class Capabilities:
    """What a family or a checkpoint can do for a voice or a text."""

    presets: bool = False
    clone: bool = False
    continuation: bool = False
    embedding: bool = False
    design: bool = False
    instructions: bool = False
    """Whether instructions change how a text is spoken."""
    text_stream: bool = False
    reference_embedding: bool = False  # beside a reference; it replaces the one computed from the recording
    mixes: bool = False  # of presets, by weight: `one(2)+other(1)`
    references: int = 1
    """How many references one cloned voice may have."""

    def names(self) -> tuple[str, ...]:
        """The names of the abilities that are present."""
        return tuple(name for name, value in vars(self).items() if value is True)


@dataclass(frozen=True)
class ModelInfo:
    """What one checkpoint is and can do; for a family without checkpoints, what its spec says."""

    family: str
    summary: str
    sample_rate: int
    channels: int = 1
    frame_hz: float | None = None
    can: Capabilities = field(default_factory=Capabilities)
    voices: tuple[str, ...] = ()
    """Presets that are on this machine. If this is empty although `can.presets` is set, their names are unknown."""
    to_download: tuple[str, ...] = ()
    """Presets that are not on this machine yet: each is downloaded when a request first names it."""
    voice_facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict, hash=False)
    """What the family or the checkpoint declares of presets, by their names: `gender`, `accent`."""
    languages: tuple[str, ...] = ()
    """ISO 639-1 codes, or the checkpoint's own names. Empty: any language is accepted."""
    embedding_size: int | None = None
    reference_needs: tuple[str, ...] = ()
    """What a request gives beside a reference where a recording cannot be encoded: `speaker_embedding`, or options."""
    normalise: bool = False
    """Whether the model needs numbers, dates and the like as words."""
    phonemes: bool = False
    """Whether the model needs English words as phonemes."""
    default_voice: bool = True
    """Whether the model speaks if a request names no voice."""
    sampling: tuple[str, ...] = ()
    """The fields of `Sampling` that have an effect."""
    options: tuple[str, ...] = ()
    """The family's options that have an effect."""
    instead: Mapping[str, str] = field(default_factory=dict, hash=False)
    """For abilities that this checkpoint lacks, by name: a hint what to do instead. It overrides the spec's hint."""
    name: str = ""
    """The name of a checkpoint that is part of this package; otherwise empty."""
    variant: str = ""
    """Which kind of checkpoint of its family this is, where a family has several."""

    @property
    def title(self) -> str:
        """The name that error messages use."""
        return self.name or f"{self.family} {self.variant}".rstrip()

    @property
    def presets(self) -> tuple[str, ...]:
        """All presets that a request may name."""
        return (*self.voices, *self.to_download)

    @property
    def takes_references(self) -> bool:
        """Whether a request may have reference audio, alone or with `reference_needs`."""
        return self.can.clone or bool(self.reference_needs)

    @property
    def takes_recordings(self) -> bool:
        """Whether the model speaks with a recording alone, so that a recording may be uploaded as a voice."""
        return self.can.clone or self.can.continuation

    @property
    def takes_uploads(self) -> bool:
        """Whether a voice may be uploaded: a recording, or a speaker embedding."""
        return self.takes_recordings or self.can.embedding
