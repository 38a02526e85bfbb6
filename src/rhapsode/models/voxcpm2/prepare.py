"""From a request to a draft: checked, tokenised, and all of it but the reference's sound decided."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rhapsode.errors import InvalidRequest, TextTooLong
from rhapsode.models.base import StageContext
from rhapsode.models.options import parse_options
from rhapsode.models.parts import checkpoint_of
from rhapsode.models.voxcpm2 import tokenizer
from rhapsode.models.voxcpm2.config import read
from rhapsode.models.voxcpm2.spec import VoxOptions
from rhapsode.types import Clip, Reference, SpeechRequest, Voice

PATCHES_PER_TOKEN, SPARE_PATCHES, MOST_PATCHES = 6, 10, 2000
"""Upstream's own limits: past these the talker has run away."""

_SPACES = re.compile(r"\s+")
_BRACKETS = str.maketrans("", "", "()\uff08\uff09")


@dataclass(frozen=True)
class Draft:
    """A prompt without its reference."""

    text: list[int]
    max_frames: int
    options: VoxOptions
    reference: Clip | None = None
    """The sound of a voice."""
    continued: Clip | None = None
    """Speech that the result goes on from; its transcript is part of the text."""


class Prepare:
    """Says what is wrong with a request before anything is computed for it."""

    def __init__(self, context: StageContext) -> None:
        self._spec = context.spec
        self._config = read(context.config)
        self._encode = tokenizer.read(checkpoint_of(context))

    def __call__(self, request: SpeechRequest) -> Draft:
        options: VoxOptions = parse_options(self._spec, request.options)
        self._check_timesteps(options)
        wish = control(request)
        said = _SPACES.sub(" ", request.text)  # spaces at both ends stay: upstream's tokenizer sees them
        said = f"({wish}){said}" if wish else said
        words = len(self._encode(said))
        reference, continued = recordings(request.voice, options, wish)
        text = self._encode((continued.text or "") + said) if continued else self._encode(said)
        self._check_length(len(text))
        return Draft(
            text,
            min(MOST_PATCHES, PATCHES_PER_TOKEN * words + SPARE_PATCHES),
            options,
            reference=reference,
            continued=continued.audio if continued else None,
        )

    def _check_timesteps(self, options: VoxOptions) -> None:
        most = self._config.deployment.max_timesteps
        if options.inference_timesteps > most:
            raise InvalidRequest(
                f"this deployment takes at most {most} Euler steps; its option 'max_timesteps' would allow more.",
                param="inference_timesteps",
            )

    def _check_length(self, tokens: int) -> None:
        most = self._config.patch.max_length
        if tokens >= most:
            raise TextTooLong(f"the text has {tokens} tokens; this model takes fewer than {most}.", param="input")


def control(request: SpeechRequest) -> str:
    """The voice and the manner that are asked for, as they are put in brackets before the text."""
    wishes = (request.voice.description, request.instructions)
    return ", ".join(
        plain for wish in wishes if wish and (plain := _SPACES.sub(" ", wish).translate(_BRACKETS).strip())
    )


def recordings(voice: Voice, options: VoxOptions, wish: str) -> tuple[Clip | None, Reference | None]:
    """Returns the recording that gives the sound of the voice, and the one that is continued."""
    given = Reference(voice.reference, voice.reference_text) if voice.reference else None
    if voice.continued is not None:
        if options.cloning is not None:
            raise InvalidRequest(
                "'cloning' is for one reference alone; with prompt audio leave it out.", param="cloning"
            )
        _check_continued(voice.continued, wish, "prompt_text")
        return given.audio if given else None, voice.continued
    if given is None:
        if options.cloning is not None:
            raise InvalidRequest("'cloning' needs reference audio.", param="cloning")
        return None, None
    # Instructions need the sound of a voice alone, without speech that goes before.
    use = options.cloning or ("continuation" if given.text and not wish else "reference")
    if use == "reference":
        return given.audio, None
    _check_continued(given, wish, "ref_text")
    return given.audio if use == "both" else None, given


def _check_continued(recording: Reference, wish: str, text_param: str) -> None:
    if not recording.text:
        raise InvalidRequest("to continue a recording, its transcript is needed.", param=text_param)
    if wish:
        raise InvalidRequest(
            "speech that continues a recording takes no instructions; with a reference alone, "
            "and 'cloning' = 'reference', it does.",
            param="instructions",
        )
