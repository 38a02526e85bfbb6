"""What a client may send: strict, with every spelling real clients use, and the served family's own options."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeVar, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from rhapsode.errors import InvalidRequest
from rhapsode.models.base import ModelSpec
from rhapsode.serve.response.errors import explain

Body = TypeVar("Body", bound=BaseModel)
FormatName = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
Number = Annotated[float, Field(allow_inf_nan=False)]
MAX_FRAMES = 1_000_000


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, protected_namespaces=())


class VoiceRef(Strict):
    """A voice by its id, as OpenAI writes it."""

    id: str = Field(max_length=256)


class Part(Strict):
    type: Literal["text", "input_text"] = "text"
    text: str


class Message(Strict):
    """One turn of a chat: what the user says is spoken, what the system says is how."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part]

    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)


class ReferenceBody(Strict):
    """Audio to sound like, and what is said in it. One of `audio`, `audio_path` and `url`: they mean the same."""

    audio: str | None = None
    audio_path: str | None = None
    url: str | None = None
    text: str | None = None


class VoiceFields(Strict):
    """Everything about an utterance but its text."""

    model: str | None = Field(None, max_length=512, description="The served model, or any of OpenAI's names.")
    voice: str | VoiceRef | None = Field(None, description="A preset, an uploaded voice, or one of OpenAI's names.")
    speaker: str | None = Field(None, max_length=256, description="The same as `voice`.")
    instructions: str | None = Field(None, max_length=10_000, description="How to say it, or who should.")
    response_format: FormatName | None = Field(None, description="All six stream; mp3 by default.")
    speed: Annotated[float, Field(ge=0.25, le=4.0, allow_inf_nan=False)] | None = Field(
        None, description="At the same pitch, also while streaming."
    )
    sample_rate: Annotated[int, Field(ge=8_000, le=192_000)] | None = Field(
        None, description="The model's own by default; 24000 for pcm."
    )
    channels: Literal[1, 2] | None = Field(
        None, description="1 is mono, 2 is stereo. The model's own by default; 1 for pcm and server-sent events."
    )
    language: str | None = Field(None, max_length=64)
    ref_audio: str | list[str] | None = Field(None, description="A data: or https: URL, or an uploaded voice.")
    ref_text: str | list[str] | None = Field(None, description="What is said in `ref_audio`.")
    references: list[ReferenceBody] | None = Field(None, max_length=8)
    prompt_audio: str | None = Field(None, description="A recording to continue, given as `ref_audio` is.")
    prompt_text: str | None = Field(None, max_length=10_000, description="What is said in `prompt_audio`.")
    speaker_embedding: list[Number] | None = Field(None, min_length=1, max_length=65_536)
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(None, description="Says it the same way again.")
    temperature: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] | None = Field(
        None, description="0 is greedy everywhere."
    )
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    top_k: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0.1, le=10, allow_inf_nan=False)] | None = None
    max_new_tokens: Annotated[int, Field(ge=1, le=MAX_FRAMES)] | None = Field(None, description="The most frames.")
    initial_codec_chunk_frames: Annotated[int, Field(ge=0, le=MAX_FRAMES)] | None = Field(
        None, description="Frames of the first chunk; 0 leaves it to the server."
    )


class SpeechBody(VoiceFields):
    """One utterance. Give its text as `input`, as `text` or as chat-style `messages`."""

    input: str | None = Field(None, description="What to say.")
    text: str | None = Field(None, description="The same as `input`.")
    messages: list[Message] | None = Field(None, min_length=1, max_length=256)
    stream: bool | None = Field(None, description="`false`: one whole file with its true length in the header.")
    stream_format: Literal["audio", "sse"] | None = Field(None, description="Raw bytes, or server-sent events.")

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"input": "The quick brown fox jumps over the lazy dog."},
                {"model": "tts-1", "voice": "alloy", "input": "Hello there.", "response_format": "mp3", "speed": 1.1},
                {"input": "Hello there.", "response_format": "pcm", "stream_format": "sse"},
                {"input": "The same way again.", "response_format": "wav", "stream": False, "seed": 7},
            ]
        }
    )


class BatchBody(VoiceFields):
    """Several utterances; what is set beside `items` holds for all of them, what an item sets for that one."""

    items: list[dict[str, Any]] = Field(min_length=1)

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"response_format": "mp3", "items": [{"input": "One."}, {"input": "Two.", "speed": 1.5}]}]
        }
    )


class SessionBody(VoiceFields):
    """What holds for a WebSocket session until it is changed."""

    stream_audio: bool = Field(True, description="`false`: one message with the whole file of each piece of text.")
    audio_transport: Literal["binary", "base64"] = Field("binary", description="Binary messages, or JSON.")
    split_granularity: Literal["none", "sentence"] = Field(
        "none", description="`sentence`: each one a request and a file of its own."
    )
    word_timestamps: Literal[False] = False


class Schemas:
    """The bodies for one family: its options are fields like any other."""

    def __init__(self, spec: ModelSpec) -> None:
        self.option_names = tuple(get_type_hints(spec.options))
        self.speech = self._extended(SpeechBody, spec)
        self.batch = self._extended(BatchBody, spec)
        self.session = self._extended(SessionBody, spec)

    @staticmethod
    def _extended(body: type[Body], spec: ModelSpec) -> type[Body]:
        described = options_schema(spec)["properties"]
        fields = {
            name: (hint | None, Field(None, description=described[name].get("description")))
            for name, hint in get_type_hints(spec.options).items()
            if name not in body.model_fields
        }
        extended = create_model(body.__name__, __base__=body, __doc__=body.__doc__, **cast(Any, fields))
        extended.model_config["json_schema_extra"] = body.model_config.get("json_schema_extra")
        return extended


def options_schema(spec: ModelSpec) -> dict[str, Any]:
    """A family's options as JSON schema: names, types, defaults, and what their docstrings say."""
    schema: dict[str, Any] = {"properties": {}} | TypeAdapter(spec.options).json_schema()
    for name, words in _attribute_docstrings(spec.options).items():
        schema["properties"].get(name, {})["description"] = words
    return schema


def _attribute_docstrings(kind: type) -> dict[str, str]:
    """The strings below the fields of a class, which Python itself throws away."""
    try:
        body = cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]).body
    except (OSError, TypeError, SyntaxError):  # no source at hand
        return {}
    return {
        field.target.id: inspect.cleandoc(words.value.value)
        for field, words in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(words, ast.Expr)
        and isinstance(words.value, ast.Constant)
        and isinstance(words.value.value, str)
    }


def parse(body: type[Body], data: bytes | str) -> Body:
    """A body from JSON, or one sentence about what is wrong with it."""
    try:
        return body.model_validate_json(data)
    except ValidationError as error:
        raise explain(error, body) from None
    except (UnicodeDecodeError, RecursionError):
        raise InvalidRequest("the body is not valid JSON.") from None
