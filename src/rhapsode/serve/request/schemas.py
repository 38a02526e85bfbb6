"""The bodies that clients may send: strict, in every spelling that real clients use, with the family's own options."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from rhapsode.audio.leveler import MAX_LOUDNESS, MIN_LOUDNESS
from rhapsode.checking.request import MOST_VOLUME
from rhapsode.errors import InvalidRequest
from rhapsode.models.base import ModelSpec
from rhapsode.models.option_schema import options_schema
from rhapsode.sampling_table import PARAMETERS, SamplingParameter
from rhapsode.serve.request.effect import without_effect
from rhapsode.serve.request.shape import check_shape
from rhapsode.serve.response.errors import explain
from rhapsode.text.markup import InputType
from rhapsode.types import ModelInfo

Body = TypeVar("Body", bound=BaseModel)
FormatName = Literal[
    "mp3", "opus", "aac", "flac", "wav", "pcm", "mulaw", "alaw", "wav_mulaw", "wav_alaw", "l16", "opus_packets"
]
Item = TypeVar("Item")
Number = Annotated[float, Field(allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=256)]
Sentence = Annotated[str, Field(max_length=10_000)]
Text = Annotated[str, Field(max_length=2**20)]
"""The deployment has a limit of its own, `limits.max_text_chars`, whose error has a status of its own."""
Source = Annotated[str, Field(max_length=2**26)]
"""A URL, which may hold the audio itself, or the name of a voice."""
# Validation stops at the first wrong item of a list, so that a million wrong items give one error.
Few = Annotated[list[Item], Field(max_length=8, fail_fast=True)]
Embedding = Annotated[list[Number], Field(min_length=1, max_length=65_536, fail_fast=True)]
Respellings = Annotated[
    dict[Annotated[str, Field(max_length=100)], Annotated[str, Field(max_length=300)]], Field(max_length=256)
]
MAX_FRAMES = 1_000_000
SMALL_BYTES = 2**14
"""Larger bodies are parsed in a thread, since they would block the event loop for too long."""


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, protected_namespaces=())
    unused: ClassVar[frozenset[str]] = frozenset()
    """Fields that the served checkpoint refuses, so that no error suggests them."""


Fields = TypeVar("Fields", bound=Strict)


class VoiceRef(Strict):
    """A voice by its id, as OpenAI writes it."""

    id: Name


class ContentPart(Strict):
    type: Literal["text", "input_text"] = "text"
    text: Text


class Message(Strict):
    """One message of a chat: the user's text is spoken, the system's text is the instructions."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Text | Annotated[list[ContentPart], Field(max_length=256, fail_fast=True)]

    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)


class ReferenceBody(Strict):
    """Audio to sound like, and what is said in it. One of `audio`, `audio_path` and `url`: they mean the same."""

    audio: Source | None = None
    audio_path: Source | None = None
    url: Source | None = None
    text: Sentence | None = None


class VoiceFields(Strict):
    """All fields of an utterance but its text, the sampling parameters and the options of the family."""

    model: str | None = Field(None, max_length=512, description="The served model, or any of OpenAI's names.")
    voice: Name | VoiceRef | None = Field(None, description="A preset, an uploaded voice, or one of OpenAI's names.")
    speaker: Name | None = Field(None, description="The same as `voice`.")
    instructions: Sentence | None = Field(None, description="How to say it, or who should.")
    response_format: FormatName | None = Field(None, description="All of them stream; mp3 by default.")
    speed: Annotated[float, Field(ge=0.25, le=4.0, allow_inf_nan=False)] | None = Field(
        None, description="At the same pitch, also while streaming."
    )
    loudness: Annotated[float, Field(ge=MIN_LOUDNESS, le=MAX_LOUDNESS, allow_inf_nan=False)] | None = Field(
        None, description="In LUFS, also while streaming; -16 is usual for podcasts. The model's own by default."
    )
    volume: Annotated[float, Field(ge=0, le=MOST_VOLUME, allow_inf_nan=False)] | None = Field(
        None, description="What samples are multiplied by; 1 by default. Loud ones are limited, not clipped."
    )
    sample_rate: Annotated[int, Field(ge=8_000, le=192_000)] | None = Field(
        None, description="The model's own by default; 24000 for pcm."
    )
    channels: Literal[1, 2] | None = Field(
        None, description="1 is mono, 2 is stereo. The model's own by default; 1 for pcm and server-sent events."
    )
    language: str | None = Field(None, max_length=64)
    input_type: InputType | None = Field(None, description="What the text is; `text` by default.")
    normalise: bool | None = Field(
        None, description="Writes numbers, dates and the like out as words; by default where the model wants it."
    )
    lexicon: Respellings | None = Field(None, description="Respellings by word, before those of the server.")
    word_timestamps: bool | Literal["auto"] | None = Field(
        None,
        description="Says when each word is heard: in server-sent events, in JSON bodies, over the WebSocket. "
        "`auto`: where the aligner knows the language; elsewhere there are no words, and no error.",
    )
    end_detection: bool | None = Field(
        None, description="Ends speech that goes on after its last word; by default as the server is set."
    )
    ref_audio: Source | Few[Source] | None = Field(None, description="A data: or https: URL, or an uploaded voice.")
    ref_text: Sentence | Few[Sentence] | None = Field(None, description="What is said in `ref_audio`.")
    references: Few[ReferenceBody] | None = None
    prompt_audio: Source | None = Field(None, description="A recording to continue, given as `ref_audio` is.")
    prompt_text: Sentence | None = Field(None, description="What is said in `prompt_audio`.")
    consent: Sentence | None = Field(
        None, description="Who agreed that this voice is cloned. Kept in the audit log where there is one."
    )
    speaker_embedding: Embedding | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(None, description="Says it the same way again.")
    max_new_tokens: Annotated[int, Field(ge=1, le=MAX_FRAMES)] | None = Field(None, description="The most frames.")
    initial_codec_chunk_frames: Annotated[int, Field(ge=0, le=MAX_FRAMES)] | None = Field(
        None, description="Frames of the first chunk; 0 leaves it to the server."
    )


class SegmentBody(Strict):
    """A part of a dialogue."""

    input: Text = Field(description="What to say.")
    voice: Name | VoiceRef | None = Field(None, description="Who says it; by default the `voice` of the request.")
    pause_s: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] | None = Field(
        None, description="The silence before it; 0.3 by default, and 0 before the first segment."
    )


class SpeechBody(VoiceFields):
    """One utterance. Give its text as `input`, as `text`, as chat-style `messages`, or as `segments` of a dialogue."""

    input: Text | None = Field(None, description="What to say.")
    text: Text | None = Field(None, description="The same as `input`.")
    messages: Annotated[list[Message], Field(min_length=1, max_length=256, fail_fast=True)] | None = None
    segments: Annotated[list[SegmentBody], Field(min_length=1, max_length=1000, fail_fast=True)] | None = Field(
        None, description="A dialogue: several voices in one stream, at one loudness (-20 LUFS by default)."
    )
    stream: bool | None = Field(None, description="`false`: one whole file with its true length in the header.")
    stream_format: Literal["audio", "sse"] | None = Field(None, description="Raw bytes, or server-sent events.")

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"input": "The quick brown fox jumps over the lazy dog."},
                {"model": "tts-1", "voice": "alloy", "input": "Hello there.", "response_format": "mp3", "speed": 1.1},
                {"input": "Hello there.", "response_format": "pcm", "stream_format": "sse"},
                {"segments": [{"input": "Who is there?"}, {"input": "It is me.", "voice": "echo", "pause_s": 0.5}]},
                {"input": "The same way again.", "response_format": "wav", "stream": False, "seed": 7},
            ]
        }
    )


class BatchBody(VoiceFields):
    """Several utterances; fields beside `items` apply to all items, fields of an item to that one."""

    items: Annotated[list[dict[str, Any]], Field(min_length=1, fail_fast=True)]

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"response_format": "mp3", "items": [{"input": "One."}, {"input": "Two.", "speed": 1.5}]}]
        }
    )


class SessionBody(VoiceFields):
    """The settings of a WebSocket session, until it changes them."""

    stream_audio: bool = Field(True, description="`false`: one message with the whole file of each piece of text.")
    audio_transport: Literal["binary", "base64"] = Field("binary", description="Binary messages, or JSON.")
    split_granularity: Literal["none", "sentence", "utterance"] = Field(
        "none",
        description="What is a request and a file of its own. `none`: what a family speaks best, `sentence`: each one, "
        "`utterance`: all text until it is flushed or done.",
    )


class Schemas:
    """The bodies for one checkpoint: sampling parameters and the options of its family are further fields."""

    def __init__(self, spec: ModelSpec, info: ModelInfo | None = None) -> None:
        """Without `info` the bodies are those for the family in general."""
        self.option_names = spec.option_names
        self.unused = frozenset(without_effect(info or spec.info(), self.option_names))
        self.speech = self._extended(SpeechBody, spec)
        self.batch = self._extended(BatchBody, spec)
        self.session = self._extended(SessionBody, spec)

    def _extended(self, body: type[Fields], spec: ModelSpec) -> type[Fields]:
        described = options_schema(spec)["properties"]
        fields: dict[str, Any] = {
            parameter.name: (_within(parameter) | None, Field(None, description=parameter.description))
            for parameter in PARAMETERS
        }
        fields |= {
            name: (
                (Sentence if hint is str else hint) | None,
                Field(None, description=described[name].get("description")),
            )
            for name, hint in get_type_hints(spec.options, include_extras=True).items()
            if name not in body.model_fields
        }
        extended = create_model(body.__name__, __base__=body, __doc__=body.__doc__, **fields)
        extended.unused = self.unused
        extended.model_config["json_schema_extra"] = body.model_config.get("json_schema_extra")
        return extended


def _within(parameter: SamplingParameter) -> Any:
    """Returns the type of a sampling parameter, with its range."""
    allowed = parameter.range
    bounds: dict[str, Any] = {"gt" if allowed.above else "ge": allowed.least, "le": allowed.most}
    return Annotated[
        parameter.kind, Field(**bounds), *([Field(allow_inf_nan=False)] if parameter.kind is float else [])
    ]


async def read(body: type[Body], data: bytes) -> Body:
    """Parses a body without blocking the event loop."""
    return parse(body, data) if len(data) <= SMALL_BYTES else await asyncio.to_thread(parse, body, data)


def parse(body: type[Body], data: bytes) -> Body:
    """Parses a body from JSON, or raises an error that says in one sentence what is wrong with it."""
    check_shape(data)
    try:
        return body.model_validate_json(data)
    except ValidationError as error:
        unused = body.unused if issubclass(body, Strict) else frozenset[str]()
        raise explain(error, body.model_fields.keys() - unused) from None
    except (UnicodeDecodeError, RecursionError):
        raise InvalidRequest("the body is not valid JSON.") from None
