"""The prepare and encode stages: the voice is prefilled, and each frame consumes one character of the text."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rhapsode.errors import TextTooLong
from rhapsode.models.base import Prompt, StageContext
from rhapsode.models.dummy.spec import DummyOptions
from rhapsode.text.clean import clean
from rhapsode.types import SpeechRequest, Voice

VOCAB = 251  # small enough that bfloat16 holds every token exactly
MAX_TEXT = 2048
VOICE_REPEAT = 3  # a prompt of more than one page


@dataclass
class DummyPrompt(Prompt):
    voice: str = ""
    tokens: list[int] = field(default_factory=list)
    closed: bool = True
    endless: bool = False


class CharacterFeed:
    """Makes one token per character; later text changes none of them."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._closed = False

    def push(self, text: str) -> Sequence[int]:
        tokens = tokenize(text)
        self._tokens += len(tokens)
        check_fits(self._tokens)
        return tokens

    def close(self) -> Sequence[int]:
        self._closed = True
        return ()

    def steps(self) -> int | None:
        return None if self._closed else self._tokens


def tokenize(text: str) -> list[int]:
    return [ord(char) % VOCAB for char in text]


def check_fits(tokens: int) -> None:
    if tokens > MAX_TEXT:
        raise TextTooLong(f"the text has {tokens} characters; a slot holds {MAX_TEXT}.", param="input")


def sound(voice: Voice) -> str:
    """Returns the text that stands for a voice: its name, or a digest of its recordings and its embedding."""
    clips = [reference.audio.samples.tobytes() for reference in voice.references]
    numbers = np.asarray(voice.embedding, np.float32).tobytes() if voice.embedding is not None else b""
    content = b"".join([*clips, numbers])
    return f"{zlib.crc32(content):08x}" if content else voice.name or ""


class DummyPrepare:
    """Cleans and tokenises the text of a checked request."""

    def __init__(self, context: StageContext) -> None:
        self._spec = context.spec
        self._unspoken: str = context.settings.unspoken

    def __call__(self, request: SpeechRequest) -> DummyPrompt:
        options: DummyOptions = request.options
        text = request.text if request.text_open else clean(request.text)
        tokens = tokenize(text) if not self._unspoken or self._unspoken not in text else []
        check_fits(len(tokens))
        return DummyPrompt(
            max_frames=MAX_TEXT if request.text_open else 2 * len(tokens) + 16,
            voice=f"{sound(request.voice) or self._spec.voices[0]}:{request.instructions or ''}",
            tokens=tokens,
            closed=not request.text_open,
            endless=options.endless,
            feed=CharacterFeed(len(tokens)) if request.text_open else None,
        )


class DummyEncode:
    """In place of a reference encoder: turns the voice into the content that the talker prefills."""

    def __init__(self, context: StageContext) -> None:
        """Needs nothing of the context."""

    def __call__(self, prompts: Sequence[DummyPrompt]) -> list[DummyPrompt]:
        return [self._encode(prompt) for prompt in prompts]

    def _encode(self, prompt: DummyPrompt) -> DummyPrompt:
        content = np.array(tokenize(prompt.voice * VOICE_REPEAT), np.int64)[:, None]
        return replace(prompt, length=len(content), content=content)
