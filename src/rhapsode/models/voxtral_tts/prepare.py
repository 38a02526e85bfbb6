"""The prepare stage: checks and tokenises a request. What it returns lacks only the encoded reference."""

from __future__ import annotations

from dataclasses import dataclass

from rhapsode.errors import InvalidRequest, TextTooLong
from rhapsode.models.base import StageContext
from rhapsode.models.parts import checkpoint_of
from rhapsode.models.voxtral_tts.config import read
from rhapsode.models.voxtral_tts.prompt import PromptShell, Rows, VoxtralPromptBuilder
from rhapsode.models.voxtral_tts.spec import VoxtralOptions
from rhapsode.models.voxtral_tts.tokenizer import Tekken
from rhapsode.models.voxtral_tts.voices import read_voices
from rhapsode.types import Clip, SpeechRequest, Voice

USUAL_VOICE = "cheerful_female"
"""The voice for requests that name none, as in other servers; a checkpoint that lacks it uses its first voice."""
FRAMES_PER_TOKEN, SPARE_FRAMES, MOST_FRAMES = 16, 128, 4096
"""More than any text needs: 1.28 s a token, ten seconds for pauses, and the longest speech other servers allow."""


@dataclass(frozen=True)
class VoxtralDraft:
    """A prompt before its reference is encoded."""

    shell: PromptShell
    max_frames: int
    options: VoxtralOptions
    preset: Rows | None = None
    """The positions of a preset voice."""
    reference: Clip | None = None
    """A recording to clone, where there is no preset."""


class VoxtralPrepare:
    """Turns a checked request into a draft."""

    def __init__(self, context: StageContext) -> None:
        config = read(context.config)
        self._context_length = config.backbone.max_seq_len
        self._tokenizer = tokenizer = Tekken(checkpoint_of(context))
        self._builder = builder = VoxtralPromptBuilder(tokenizer, config.codes.books)
        voices = read_voices(context, config, tokenizer.voice_tokens)
        self._presets = {
            name: builder.preset(preset, tokenizer.voice_tokens.get(name, preset.count))
            for name, preset in voices.presets.items()
        }
        usual = next(iter(self._presets), None)
        self._usual = USUAL_VOICE if USUAL_VOICE in self._presets else usual

    def __call__(self, request: SpeechRequest) -> VoxtralDraft:
        text = self._tokenizer.encode(request.text)
        most = self._context_length // 2
        if len(text) > most:
            raise TextTooLong(f"the text has {len(text)} tokens; this model takes at most {most}.", param="input")
        max_frames = min(MOST_FRAMES, SPARE_FRAMES + FRAMES_PER_TOKEN * len(text))
        shell, voice = self._builder.shell(text), request.voice
        if voice.references:
            return VoxtralDraft(shell, max_frames, request.options, reference=voice.references[0].audio)
        return VoxtralDraft(shell, max_frames, request.options, preset=self._preset(voice))

    def _preset(self, voice: Voice) -> Rows:
        name = voice.name or self._usual
        if name is None:
            raise InvalidRequest("this checkpoint has no preset voices: it needs a reference.", param="voice")
        return self._presets[name]
