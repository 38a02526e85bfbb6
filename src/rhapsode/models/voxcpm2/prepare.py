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
from rhapsode.types import Clip, SpeechRequest

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
        said = _SPACES.sub(" ", request.text).strip()
        said = f"({wish}){said}" if wish else said
        words = len(self._encode(said))
        mode = cloning(request, options, wish)
        clip, transcript = request.voice.reference, request.voice.reference_text or ""
        continued = mode in ("continuation", "both")
        text = self._encode(transcript + said) if continued else self._encode(said)
        self._check_length(len(text))
        return Draft(
            text,
            min(MOST_PATCHES, PATCHES_PER_TOKEN * words + SPARE_PATCHES),
            options,
            reference=clip if mode in ("reference", "both") else None,
            continued=clip if continued else None,
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


def cloning(request: SpeechRequest, options: VoxOptions, wish: str) -> str | None:
    """How the reference is used."""
    voice = request.voice
    if voice.reference is None:
        if options.cloning is not None:
            raise InvalidRequest("'cloning' needs reference audio.", param="cloning")
        return None
    if options.cloning in ("continuation", "both"):
        if not voice.reference_text:
            raise InvalidRequest("to continue a reference, its transcript is needed.", param="ref_text")
        if wish:
            raise InvalidRequest(
                "speech that continues a reference takes no instructions; with 'cloning' = 'reference' it does.",
                param="instructions",
            )
        return options.cloning
    # Only the sound of a voice can be told how to speak.
    return "continuation" if options.cloning is None and voice.reference_text and not wish else "reference"
