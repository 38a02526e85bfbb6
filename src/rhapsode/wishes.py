"""Builds a request from what a caller of the Python API wishes: keywords, and names or files of voices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from rhapsode.audio.recordings import heard, is_recording
from rhapsode.errors import UnknownOption, did_you_mean
from rhapsode.sampling_table import SamplingWishes
from rhapsode.text.markup import InputType
from rhapsode.types import Sampling, Segment, SpeechRequest, Voice


class Wishes(SamplingWishes, total=False):
    """The keywords of `TTS.speak` and `TTS.stream`: fields of `SpeechRequest` and `Sampling`."""

    language: str | None
    instructions: str | None
    speed: float
    loudness: float | None
    volume: float
    channels: int | None
    seed: int | None
    max_frames: int | None
    first_chunk_frames: int | None
    options: Mapping[str, Any]
    """Options of the family, by name."""
    text_open: bool
    real_time: bool
    normalise: bool | None
    input_type: InputType
    lexicon: Mapping[str, str]
    word_timestamps: bool | Literal["auto"]
    end_detection: bool | None


def make_request(
    text: str | Sequence[Segment],
    voice: str | Path | Voice | None = None,
    known_options: Iterable[str] = (),
    **wishes: Any,
) -> SpeechRequest:
    """Returns the request. Options of the family may be keywords, too; `known_options` are their names."""
    given = dict(wishes)
    options = dict(given.pop("options", {}))
    sampling = {name: given.pop(name) for name in Sampling.__dataclass_fields__ if name in given}
    for name in [name for name in given if name not in Wishes.__annotations__]:
        if name not in known_options:
            hint = did_you_mean(name, [*Wishes.__annotations__, *known_options])
            raise UnknownOption(f"there is no '{name}' here: {hint}", param=name)
        options[name] = given.pop(name)
    if not isinstance(text, str):
        given["segments"] = tuple(replace(part, voice=as_voice(part.voice)) for part in text)
        text = ""
    return SpeechRequest(text, as_voice(voice), sampling=Sampling(**sampling), options=options, **given)


def as_voice(voice: str | Path | Voice | None) -> Voice:
    """Returns the voice of that name, or the clone of a recording if it is the name of an audio file."""
    if isinstance(voice, Voice):
        alone = Voice(name=voice.name)
        return as_voice(voice.name) if voice.name and voice == alone else voice
    if isinstance(voice, Path) or (voice is not None and is_recording(voice)):
        return Voice.cloned(heard(Path(voice)))
    return Voice(name=voice)
