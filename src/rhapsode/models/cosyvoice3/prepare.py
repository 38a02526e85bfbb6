"""The prepare stage: checks and tokenises a request. What it returns lacks only the encoded reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rhapsode.errors import InvalidRequest
from rhapsode.models.base import StageContext, Traits, is_short
from rhapsode.models.cosyvoice3.config import read
from rhapsode.models.cosyvoice3.presets import CosyPreset, read_presets
from rhapsode.models.cosyvoice3.prompt import CosyPrompt
from rhapsode.models.cosyvoice3.spec import CosyOptions, CosySettings
from rhapsode.models.cosyvoice3.special_tokens import END_OF_PROMPT
from rhapsode.models.cosyvoice3.text import CosyText
from rhapsode.models.cosyvoice3.tokenizer import CosyTokenizer
from rhapsode.models.parts import checkpoint_of
from rhapsode.text.clean import is_speakable
from rhapsode.types import Clip, SpeechRequest

SYSTEM = "You are a helpful assistant."
USUAL_PER_TEXT_TOKEN = 12
"""Speech tokens per token of text, which few texts exceed: half a second."""
LEAST_SEGMENT = 16
"""Tokens of text that a segment has room for in any case."""


@dataclass(frozen=True)
class CosyDraft:
    """A prompt before its reference is encoded."""

    text: CosyText
    head: list[int]
    """The system line or an instruction, and the token that ends it."""
    most_frames: int
    """Speech tokens that the flow has room for after the reference."""
    transcript: list[int] = field(default_factory=list)
    counted: int = 0
    """Tokens of the head that count as text in the limits of the length."""
    preset: CosyPreset | None = None
    reference: Clip | None = None
    tokens: Sequence[int] | None = None
    """The reference's tokens, where they are given."""
    embedding: Sequence[float] | None = None
    in_prompt: bool = False
    """Whether the reference's speech goes into the language model's prompt, after its transcript."""
    in_turns: bool = False
    enforced: bool = True


class CosyPrepare:
    """Turns a checked request into a draft. Later prompts of a request are already made and pass through unchanged."""

    def __init__(self, context: StageContext) -> None:
        folder = checkpoint_of(context)
        settings: CosySettings = context.settings
        config = read(context.config, folder)
        self._encode = CosyTokenizer(folder, config.layers.vocab_size)
        self._presets = read_presets(folder, config, context.random_weights)
        self._most_frames = config.tokens_of(settings.flow_context_s)

    def traits(self) -> Traits:
        return Traits(is_quick=is_short)

    def __call__(self, work: SpeechRequest | CosyPrompt) -> CosyDraft | CosyPrompt:
        return work if isinstance(work, CosyPrompt) else self._draft(work)

    def _draft(self, request: SpeechRequest) -> CosyDraft:
        options: CosyOptions = request.options
        _check(request, options)
        preset = self._preset(request)
        transcript = self._transcript(request, preset, options)
        head, counted = self._head(request, bool(transcript))
        reference = request.voice.references[0].audio if request.voice.references else None
        text = CosyText(self._encode, max(self._most_frames // USUAL_PER_TEXT_TOKEN, LEAST_SEGMENT))
        text.push(_without_system_line(request.text))
        if not request.text_open:
            text.close()
            if not text.segments[0].tokens:
                raise InvalidRequest("the text has nothing to say.", param="input")
        return CosyDraft(
            text,
            head,
            self._most_frames,
            transcript,
            counted,
            preset,
            reference,
            options.reference_tokens,
            request.voice.embedding,
            in_prompt=bool(transcript),
            in_turns=request.text_open or options.interleave,
            enforced=options.enforce_min_length,
        )

    # --- text ---

    def _head(self, request: SpeechRequest, has_transcript: bool) -> tuple[list[int], int]:
        """Returns the beginning of a prompt, and how many of its tokens count as text.

        Upstream counts the system line where it is in front of the text, not in front of a transcript or as part of an
        instruction.
        """
        line = f"{SYSTEM} {request.instructions.strip()}" if request.instructions else SYSTEM
        head = [*self._encode(line), self._encode.end_of_prompt]
        return head, 0 if has_transcript or request.instructions else len(head)

    def _transcript(self, request: SpeechRequest, preset: CosyPreset | None, options: CosyOptions) -> list[int]:
        """Returns the tokens of the reference's transcript; none if the language model gets no reference.

        With an instruction, the model gets no reference: upstream trained it that way.
        """
        if request.instructions or options.cross_lingual:
            return []
        if preset is not None:
            stored = preset.prompt_text.tolist()
            end = self._encode.end_of_prompt
            return stored[stored.index(end) + 1 :] if end in stored else stored
        words = request.voice.references[0].text if request.voice.references else None
        return self._encode(_without_system_line(words).strip()) if words else []

    # --- voice ---

    def _preset(self, request: SpeechRequest) -> CosyPreset | None:
        """Returns the preset that the request names, or the first one if it asks for no voice at all."""
        voice = request.voice
        if voice.references or voice.embedding is not None:
            return None
        name = voice.name or next(iter(self._presets), None)
        if name is None:
            raise InvalidRequest(
                "this checkpoint has no preset speakers: give a reference or a speaker embedding.", param="voice"
            )
        return self._presets[name]


def _check(request: SpeechRequest, options: CosyOptions) -> None:
    """Raises `InvalidRequest` if a field of the request is empty or lacks another field that it needs."""
    if options.reference_tokens is not None and not request.voice.references:
        raise InvalidRequest("'reference_tokens' need the recording they are of.", param="reference_tokens")
    for reference in request.voice.references:
        if reference.text is not None and not is_speakable(reference.text):
            raise InvalidRequest(
                "the transcript has no letter and no digit: give the words of the recording, or leave it out.",
                param="ref_text",
            )
    if request.instructions and not request.instructions.strip():
        raise InvalidRequest("the instructions are empty: give some, or leave them out.", param="instructions")


def _without_system_line(text: str) -> str:
    """Returns a text without the line that upstream's users put before it: it is in the prompt anyway."""
    return text.removeprefix(f"{SYSTEM}{END_OF_PROMPT}")
