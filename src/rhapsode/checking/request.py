"""Checks a request against what the model can do, before any stage works on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rhapsode.audio.leveler import check_loudness
from rhapsode.checking.dialogue import MOST_PAUSE_S, check_count, check_speakers, in_segment, speakers_of
from rhapsode.config import Limits
from rhapsode.errors import InvalidRequest, TextTooLong, UnknownVoice, did_you_mean
from rhapsode.models.abilities import can_clone, unable, who_can
from rhapsode.models.base import ModelSpec
from rhapsode.models.options import parse_options
from rhapsode.sampling_table import PARAMETERS
from rhapsode.text.clean import is_speakable
from rhapsode.text.language import AUTO, CODES, code_of, name_of
from rhapsode.text.markup import INPUT_TYPES
from rhapsode.types import ModelInfo, Reference, Sampling, Segment, SpeechRequest, Voice
from rhapsode.voices.mix import is_mix, parse_mix, spell_mix

SPEED_RANGE = (0.25, 4.0)
MOST_VOLUME = 10.0
LARGEST_FLOAT32 = 3.4e38
MOST_ENTRIES = 256
"""The most words in the lexicon of one request."""

_NO_SAMPLING = Sampling()
_TYPES: dict[str, type] = {
    "text": str,
    "speed": float,
    "loudness": float,
    "volume": float,
    "channels": int,
    "seed": int,
    "max_frames": int,
    "first_chunk_frames": int,
    "language": str,
    "instructions": str,
}
_ALWAYS = ("text", "speed")
"""Fields whose type is checked even if the value is empty. That of `channels` is checked unless it is None."""


def checked(request: SpeechRequest, spec: ModelSpec, info: ModelInfo, limits: Limits) -> SpeechRequest:
    """Returns the request as stages get it: options parsed, the preset and the language spelt as the model spells them.

    Raises an error that says what is wrong and what would be right.
    """
    if request.segments:
        return _checked_dialogue(request, spec, info, limits)
    _check_types(request)
    check_length(len(request.text), limits)
    if not request.text_open:
        check_speakable(request.text)
    if request.text_open and not info.can.text_stream:
        raise InvalidRequest(f"{info.title} cannot take text while it speaks: send the whole text.", param="input")
    low, high = SPEED_RANGE
    if not low <= request.speed <= high:
        raise InvalidRequest(f"speed must be between {low} and {high}.", param="speed")
    if request.loudness is not None:
        check_loudness(request.loudness)
    if not 0 <= request.volume <= MOST_VOLUME:
        raise InvalidRequest(f"volume must be between 0 and {MOST_VOLUME:g}.", param="volume")
    if request.channels not in (None, 1, 2):
        raise InvalidRequest("channels must be 1 (mono) or 2 (stereo).", param="channels")
    if request.seed is not None and not 0 <= request.seed < 2**63:
        raise InvalidRequest("seed must be between 0 and 2**63 - 1.", param="seed")
    for name, frames in (("max_frames", request.max_frames), ("first_chunk_frames", request.first_chunk_frames)):
        if frames is not None and frames < 1:
            raise InvalidRequest(f"{name} must be at least 1.", param=name)
    _check_text(request)
    if request.sampling != _NO_SAMPLING:
        _check_sampling(request.sampling)
    check_abilities(request, info)
    _check_effect(request, spec, info)
    voice, preset = request.voice, _preset(request.voice.name, info)
    changed = {
        "voice": voice if preset == voice.name else replace(voice, name=preset),
        "language": _language(request.language, info),
        "options": parse_options(spec, request.options, info.options),
    }
    good = object.__new__(SpeechRequest)  # as `replace`, without a call for every field
    vars(good).update(vars(request), **changed)
    return good


def _checked_dialogue(request: SpeechRequest, spec: ModelSpec, info: ModelInfo, limits: Limits) -> SpeechRequest:
    """Checks every segment as a request of its own; errors name the segment."""
    if request.text_open:
        raise InvalidRequest("the text of a dialogue is complete: give 'segments' or open text.", param="segments")
    check_count(len(request.segments), limits)
    if not all(isinstance(segment, Segment) for segment in request.segments):
        raise InvalidRequest("segments must be of the type Segment.", param="segments")
    last_speaker = max(speakers_of(request.segments))
    check_speakers(last_speaker + 1)
    if spec.one_voice and last_speaker:
        raise InvalidRequest(f"{info.title} speaks a dialogue with one voice only.", param="segments")
    text = "\n".join(segment.text for segment in request.segments)
    check_length(len(text), limits)
    parts = []
    for index, segment in enumerate(request.segments):
        try:
            _check_pause(segment.pause_s)
            alone = replace(request, text=segment.text, voice=segment.voice, segments=())
            parts.append(checked(alone, spec, info, limits))
        except InvalidRequest as error:
            raise in_segment(error, index) from None
    segments = tuple(replace(s, voice=part.voice) for s, part in zip(request.segments, parts, strict=True))
    return replace(parts[0], text=text, segments=segments)


def _check_pause(pause_s: float | None) -> None:
    if pause_s is not None and not 0 <= pause_s <= MOST_PAUSE_S:
        raise InvalidRequest(f"pause_s must be between 0 and {MOST_PAUSE_S:g}.", param="pause_s")


def _check_types(request: SpeechRequest) -> None:
    """Raises if a field has a wrong type. Python callers may pass any: it is reported here, not later in a stage."""
    given = vars(request)
    for name, kind in _TYPES.items():
        value = given[name]
        if value or name in _ALWAYS or (name == "channels" and value is not None):
            _check_type(name, value, kind)
    if request.voice.name:
        _check_type("voice", request.voice.name, str)
    if request.sampling != _NO_SAMPLING:
        for parameter in PARAMETERS:
            if value := vars(request.sampling)[parameter.name]:
                _check_type(parameter.name, value, parameter.kind)


def _check_type(name: str, value: Any, kind: type) -> None:
    """Raises unless a value is of this kind. For `float` an integer is accepted; a bool is never a number."""
    if not isinstance(value, (int, float) if kind is float else kind) or isinstance(value, bool):
        right = {str: "text", int: "a whole number", float: "a number"}[kind]
        raise InvalidRequest(f"{name} must be {right}, not {type(value).__name__}.", param=name)


def _check_text(request: SpeechRequest) -> None:
    """Checks the fields that say how the text is to be read."""
    if request.input_type not in INPUT_TYPES:
        raise InvalidRequest(
            f"input_type must be {', '.join(INPUT_TYPES[:-1])} or {INPUT_TYPES[-1]}.", param="input_type"
        )
    for name, value in (
        ("normalise", request.normalise),
        ("word_timestamps", request.word_timestamps == "auto" or request.word_timestamps),
        ("end_detection", request.end_detection),
    ):
        if value not in (None, True, False):
            raise InvalidRequest(f"{name} must be true or false.", param=name)
    lexicon = request.lexicon
    if not isinstance(lexicon, Mapping) or not all(isinstance(text, str) for pair in lexicon.items() for text in pair):
        raise InvalidRequest("lexicon must hold respellings by word, all of them text.", param="lexicon")
    if len(lexicon) > MOST_ENTRIES:
        raise InvalidRequest(f"the lexicon of a request has at most {MOST_ENTRIES} words.", param="lexicon")


def check_length(chars: int, limits: Limits) -> None:
    """Raises if a text has more characters than the deployment allows."""
    if chars > limits.max_text_chars:
        raise TextTooLong(f"the text has {chars} characters; at most {limits.max_text_chars} are taken.", param="input")


def check_speakable(text: str) -> None:
    """Raises if a whole text has nothing to say: models babble when they get only spaces, signs or emoji."""
    if not text.strip():
        raise InvalidRequest("the text is empty: there is nothing to say.", param="input")
    if not is_speakable(text):
        raise InvalidRequest("the text has no letter and no digit: there is nothing to say.", param="input")


def _check_sampling(sampling: Sampling) -> None:
    for parameter in PARAMETERS:
        value = vars(sampling)[parameter.name]
        if value is not None and value not in parameter.range:
            raise InvalidRequest(f"{parameter.name} must be {parameter.range}.", param=parameter.name)


def check_abilities(request: SpeechRequest, info: ModelInfo) -> None:
    """Raises if a request needs what this checkpoint cannot do."""
    voice, can = request.voice, info.can
    if voice.references and not can_clone(info, _given(request)):
        raise unable(info, "clone", "voice")
    wanted = (
        ("continuation", "voice", voice.continued is not None),
        ("design", "voice", voice.description is not None),
        ("instructions", "instructions", bool(request.instructions)),
    )
    for ability, param, is_wanted in wanted:
        if is_wanted and ability not in can.names():
            raise unable(info, ability, param)
    check_embedding(voice.embedding, info, "speaker_embedding")
    if not info.default_voice and voice == Voice():
        ways = [("a reference", info.takes_recordings), ("a speaker embedding", can.embedding)]
        right = " or ".join(way for way, is_there in ways if is_there)
        raise InvalidRequest(f"{info.title} has no voice of its own: it needs {right}.", param="voice")
    if not all(isinstance(reference, Reference) for reference in voice.references):
        raise InvalidRequest("a voice's references must be of the type Reference.", param="references")
    if voice.continued is not None and not isinstance(voice.continued, Reference):
        raise InvalidRequest("a voice's continued recording must be of the type Reference.", param="continued")
    for param, recordings in (("ref_text", voice.references), ("prompt_text", (voice.continued,))):
        if any(one is not None and one.text is not None and not one.text.strip() for one in recordings):
            right = "give the words of the recording, or leave it out"
            raise InvalidRequest(f"a transcript is empty: {right}.", param=param)
    if len(voice.references) > can.references:
        most = "one reference" if can.references == 1 else f"{can.references} references"
        raise InvalidRequest(f"{info.title} takes {most}, not {len(voice.references)}.", param="references")


def _given(request: SpeechRequest) -> set[str]:
    """Returns the names of what a request gives, to be compared with `ModelInfo.reference_needs`."""
    options = request.options if isinstance(request.options, Mapping) else {}
    given = {name for name, value in options.items() if value is not None}
    return given if request.voice.embedding is None else {*given, "speaker_embedding"}


def _check_effect(request: SpeechRequest, spec: ModelSpec, info: ModelInfo) -> None:
    """Raises if a request sets sampling values or options that have no effect on this checkpoint."""
    for name, value in vars(request.sampling).items():
        if value is not None and name not in info.sampling:
            right = f"of sampling it takes {', '.join(info.sampling) or 'nothing'}"
            raise InvalidRequest(f"{name} has no effect on {info.title}: {right}.", param=name)
    for name in request.options if isinstance(request.options, Mapping) else ():
        if name in spec.option_needs and name not in info.options:
            right = who_can(spec.option_needs[name])
            raise InvalidRequest(f"the option '{name}' has no effect on {info.title}. {right}", param=name)


def check_embedding(embedding: tuple[float, ...] | None, info: ModelInfo, param: str) -> None:
    """Raises if the checkpoint takes no speaker embedding, or none like this one; `param` is where it came from."""
    if embedding is None:
        return
    if not info.can.embedding:
        raise unable(info, "embedding", param)
    size = info.embedding_size
    right = f"a speaker embedding of {info.title} has {size} finite numbers"
    if size is not None and len(embedding) != size:
        raise InvalidRequest(f"{right}; got {len(embedding)} numbers.", param=param)
    if size is not None and not all(abs(number) <= LARGEST_FLOAT32 for number in embedding):
        raise InvalidRequest(f"{right}; one of these is too large or not finite.", param=param)


def _preset(name: str | None, info: ModelInfo) -> str | None:
    """Returns the preset's name as the model spells it; upper and lower case do not matter."""
    if name is None:
        return None
    if not info.can.presets:
        raise UnknownVoice(f"{info.title} has no voices to choose by name. {who_can('presets')}", param="voice")
    if name in info.voices or name in info.presets or not info.presets:
        return name
    if is_mix(name) and info.can.mixes:
        return _mixed(name, info)
    by_case = {voice.lower(): voice for voice in info.presets}
    if name.lower() not in by_case:
        raise UnknownVoice(f"{info.title} has no voice '{name}': {did_you_mean(name, info.presets)}", param="voice")
    return by_case[name.lower()]


def _mixed(mix: str, info: ModelInfo) -> str:
    """Returns a mix in its one spelling, of presets as the model spells them."""
    parts: dict[str, float] = {}
    for name, weight in parse_mix(mix).items():
        preset = _preset(name, info) or name
        parts[preset] = parts.get(preset, 0.0) + weight
    return spell_mix(parts)


def _language(language: str | None, info: ModelInfo) -> str | None:
    """Returns the language's code; None lets the model find out. A checkpoint that lists no languages takes every
    language that there is: numbers and dates are read in it."""
    code = code_of(language) if language else AUTO
    if code == AUTO:
        return None
    if info.languages and code not in info.languages:
        hint = did_you_mean(code, [AUTO, *map(name_of, info.languages)])
        raise InvalidRequest(f"'{language}' is no language of {info.title}: {hint}", param="language")
    if not info.languages and code not in CODES:
        right = "give a code of ISO 639-1 such as 'en', an English name such as 'german', or 'auto'"
        raise InvalidRequest(f"'{language}' is no language: {right}.", param="language")
    return code
