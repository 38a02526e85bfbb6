"""Sentences, as far as they are known; more may come while the first ones are spoken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rhapsode.errors import InvalidRequest
from rhapsode.models.base import StageContext
from rhapsode.models.hibari.spec import HibariOptions
from rhapsode.models.options import parse_options
from rhapsode.models.prompt import Prompt
from rhapsode.text.stream import SentenceStream
from rhapsode.types import SpeechRequest

MOST_CHARS = 300


@dataclass
class HibariPrompt(Prompt):
    voice: str = ""
    pause_s: float = 0.0
    sentences: SentenceStream = field(default_factory=SentenceStream)


class SentenceFeed:
    """Appended text goes into the sentences the speaker is reading from."""

    def __init__(self, sentences: SentenceStream) -> None:
        self._sentences = sentences

    def push(self, text: str) -> Sequence[int]:
        self._sentences.push(text)
        return ()

    def close(self) -> Sequence[int]:
        self._sentences.close()
        return ()

    def steps(self) -> int | None:
        return None


class Prepare:
    def __init__(self, context: StageContext) -> None:
        self._spec = context.spec

    def __call__(self, request: SpeechRequest) -> HibariPrompt:
        if request.language not in (None, "auto", *self._spec.languages, "English", "english"):
            raise InvalidRequest(f"hibari speaks English only, not '{request.language}'.", param="language")
        options: HibariOptions = parse_options(self._spec, request.options)
        sentences = SentenceStream("en", MOST_CHARS)
        sentences.push(request.text)
        if not request.text_open:
            sentences.close()
        return HibariPrompt(
            max_frames=0,
            voice=request.voice.name or self._spec.voices[0],
            pause_s=options.pause_s,
            sentences=sentences,
            feed=SentenceFeed(sentences) if request.text_open else None,
        )
