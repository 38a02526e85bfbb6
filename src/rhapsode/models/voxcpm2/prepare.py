"""The prepare stage: checks and tokenises a request. What it returns lacks only the encoded reference."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rhapsode.errors import InvalidRequest, TextTooLong
from rhapsode.models.base import StageContext, Traits, is_short
from rhapsode.models.parts import checkpoint_of
from rhapsode.models.voxcpm2 import tokenizer
from rhapsode.models.voxcpm2.config import read
from rhapsode.models.voxcpm2.spec import VoxOptions, VoxSettings
from rhapsode.types import Clip, Reference, SpeechRequest, Voice

PATCHES_PER_TOKEN, SPARE_PATCHES, MOST_PATCHES = 6, 10, 2000
"""Upstream's limits; longer speech means that the model did not find the end."""

_SPACES = re.compile(r"\s+")
_BRACKETS = str.maketrans("", "", "()\uff08\uff09")


@dataclass(frozen=True)
class VoxDraft:
    """A prompt before its reference is encoded."""

    text: list[int]
    max_frames: int
    options: VoxOptions
    reference: Clip | None = None
    """A recording of the voice to speak with."""
    continued: Clip | None = None
    """Speech to continue; its transcript is part of the text."""


class VoxPrepare:
    """Turns a checked request into a draft."""

    def __init__(self, context: StageContext) -> None:
        self._settings: VoxSettings = context.settings
        self._config = read(context.config)
        self._encode = tokenizer.read(checkpoint_of(context))

    def traits(self) -> Traits:
        return Traits(is_quick=is_short)

    def __call__(self, request: SpeechRequest) -> VoxDraft:
        options: VoxOptions = request.options
        self._check_timesteps(options)
        control = control_text(request)
        spoken = _SPACES.sub(" ", request.text)  # spaces at both ends stay: upstream's tokenizer gets them, too
        spoken = f"({control}){spoken}" if control else spoken
        reference, continued = recordings(request.voice, options, control)
        own = self._encode(spoken)
        text = self._encode((continued.text or "") + spoken) if continued else own
        self._check_length(len(text))
        return VoxDraft(
            text,
            min(MOST_PATCHES, PATCHES_PER_TOKEN * len(own) + SPARE_PATCHES),
            options,
            reference=reference,
            continued=continued.audio if continued else None,
        )

    def _check_timesteps(self, options: VoxOptions) -> None:
        most = self._settings.max_timesteps
        if options.inference_timesteps > most:
            raise InvalidRequest(
                f"this deployment takes at most {most} Euler steps; its option 'max_timesteps' would allow more.",
                param="inference_timesteps",
            )

    def _check_length(self, tokens: int) -> None:
        most = self._config.patch.max_length
        if tokens >= most:
            raise TextTooLong(f"the text has {tokens} tokens; this model takes fewer than {most}.", param="input")


def control_text(request: SpeechRequest) -> str:
    """Returns the voice's description and the instructions, which the prompt puts in brackets before the text."""
    wanted = (request.voice.description, request.instructions)
    return ", ".join(
        plain for part in wanted if part and (plain := _SPACES.sub(" ", part).translate(_BRACKETS).strip())
    )


def recordings(voice: Voice, options: VoxOptions, control: str) -> tuple[Clip | None, Reference | None]:
    """Returns the recording that gives the sound of the voice, and the one that is continued."""
    given = voice.references[0] if voice.references else None
    if voice.continued is not None:
        if options.cloning is not None:
            raise InvalidRequest(
                "'cloning' is for one reference alone; with prompt audio leave it out.", param="cloning"
            )
        _check_continued(voice.continued, control, "prompt_text")
        return given.audio if given else None, voice.continued
    if given is None:
        if options.cloning is not None:
            raise InvalidRequest("'cloning' needs reference audio.", param="cloning")
        return None, None
    # Instructions have an effect only where the reference is not continued.
    use = options.cloning or ("continuation" if given.text and not control else "reference")
    if use == "reference":
        return given.audio, None
    _check_continued(given, control, "ref_text")
    return given.audio if use == "both" else None, given


def _check_continued(recording: Reference, control: str, text_param: str) -> None:
    if not recording.text:
        raise InvalidRequest("to continue a recording, its transcript is needed.", param=text_param)
    if control:
        raise InvalidRequest(
            "speech that continues a recording takes no instructions; with a reference alone, "
            "and 'cloning' = 'reference', it does.",
            param="instructions",
        )
