"""What can be said about a request from the spec alone, before anything works on it."""

from __future__ import annotations

from typing import Any

from rhapsode.config import Limits
from rhapsode.errors import InvalidRequest, TextTooLong, UnknownVoice, did_you_mean
from rhapsode.models.base import ModelSpec
from rhapsode.models.options import parse_options
from rhapsode.types import Sampling, SpeechRequest, Voice

SPEED_RANGE = (0.25, 4.0)


def check(request: SpeechRequest, spec: ModelSpec, limits: Limits) -> None:
    """Raise what is wrong with a request, in words that say what would be right."""
    _check_types(request)
    if not request.text_open and not request.text.strip():
        raise InvalidRequest("the text is empty: there is nothing to say.", param="input")
    check_length(len(request.text), limits)
    if request.text_open and not spec.can.text_stream:
        raise InvalidRequest(f"{spec.name} cannot take text while it speaks: send the whole text.", param="input")
    low, high = SPEED_RANGE
    if not low <= request.speed <= high:
        raise InvalidRequest(f"speed must be between {low} and {high}.", param="speed")
    if request.seed is not None and not 0 <= request.seed < 2**63:
        raise InvalidRequest("seed must be between 0 and 2**63 - 1.", param="seed")
    for name in ("max_frames", "first_chunk_frames"):
        value = getattr(request, name)
        if value is not None and value < 1:
            raise InvalidRequest(f"{name} must be at least 1.", param=name)
    _check_sampling(request.sampling)
    _check_voice(request.voice, spec)
    parse_options(spec, request.options)


def _check_types(request: SpeechRequest) -> None:
    """Callers from Python may hand in anything; a wrong type would surface far from where it was made."""
    expected: dict[str, tuple[Any, type | tuple[type, ...]]] = {
        "text": (request.text, str),
        "speed": (request.speed, (int, float)),
        "seed": (request.seed or 0, int),
        "max_frames": (request.max_frames or 1, int),
        "first_chunk_frames": (request.first_chunk_frames or 1, int),
        "language": (request.language or "", str),
        "instructions": (request.instructions or "", str),
        "temperature": (request.sampling.temperature or 0, (int, float)),
        "top_k": (request.sampling.top_k or 0, int),
        "top_p": (request.sampling.top_p or 0, (int, float)),
        "repetition_penalty": (request.sampling.repetition_penalty or 0, (int, float)),
    }
    for name, (value, kind) in expected.items():
        if not isinstance(value, kind) or isinstance(value, bool):
            what = {str: "text", int: "a whole number"}.get(kind, "a number") if isinstance(kind, type) else "a number"
            raise InvalidRequest(f"{name} must be {what}, not {type(value).__name__}.", param=name)


def check_length(chars: int, limits: Limits) -> None:
    if chars > limits.max_text_chars:
        raise TextTooLong(f"the text has {chars} characters; at most {limits.max_text_chars} are taken.", param="input")


def _check_sampling(sampling: Sampling) -> None:
    ranges = {
        "temperature": (0.0, 10.0),
        "top_k": (0, 2**31 - 1),
        "top_p": (1e-6, 1.0),
        "repetition_penalty": (0.1, 10.0),
    }
    for name, (low, high) in ranges.items():
        value = getattr(sampling, name)
        if value is not None and not low <= value <= high:
            raise InvalidRequest(f"{name} must be between {low:g} and {high:g}.", param=name)


def _check_voice(voice: Voice, spec: ModelSpec) -> None:
    wants = {
        "clone": voice.reference is not None,
        "continuation": voice.continued is not None,
        "embedding": voice.embedding is not None,
        "design": voice.description is not None,
    }
    for ability, wanted in wants.items():
        if wanted and not getattr(spec.can, ability):
            can = ", ".join(spec.can.names()) or "nothing of the kind"
            raise InvalidRequest(f"{spec.name} does not do voice {ability}; it can do: {can}.", param="voice")
    if voice.name is not None and not spec.can.presets:
        raise InvalidRequest(f"{spec.name} has no voices to choose by name.", param="voice")
    if voice.name is not None and spec.voices and voice.name not in spec.voices:
        hint = did_you_mean(voice.name, spec.voices)
        raise UnknownVoice(f"{spec.name} has no voice '{voice.name}': {hint}", param="voice")
