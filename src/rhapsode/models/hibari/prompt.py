"""The prepare stage: splits the text into sentences; more may arrive while the first ones are spoken."""

from __future__ import annotations

from dataclasses import dataclass, field

from rhapsode.models.base import GeneratorPrompt, StageContext
from rhapsode.models.hibari.download import VoiceDownload
from rhapsode.models.hibari.spec import HibariOptions
from rhapsode.text.stream import SentenceStream
from rhapsode.types import SpeechRequest

MOST_CHARS = 300


@dataclass
class HibariPrompt(GeneratorPrompt):
    voice: str = ""
    pause_s: float = 0.0
    sentences: SentenceStream = field(default_factory=SentenceStream)


class HibariPrepare:
    def __init__(self, context: StageContext) -> None:
        self._spec = context.spec
        self._download = VoiceDownload()

    def __call__(self, request: SpeechRequest) -> HibariPrompt:
        options: HibariOptions = request.options
        voice = request.voice.name or self._spec.voices[0]
        self._download(voice)
        sentences = SentenceStream("en", MOST_CHARS)
        sentences.push(request.text)
        if not request.text_open:
            sentences.close()
        return HibariPrompt(
            voice=voice,
            pause_s=options.pause_s,
            sentences=sentences,
            feed=sentences if request.text_open else None,
        )
