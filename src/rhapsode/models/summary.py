"""Describes a checkpoint in a few words: for families whose checkpoints differ. Imports no torch."""

from __future__ import annotations

from rhapsode.text.language import name_of
from rhapsode.types import ModelInfo


def summarise(info: ModelInfo) -> str:
    """Returns languages, kinds of voices and the sample rate, such as "English, voice heart; 24 kHz"."""
    words = [_languages(info.languages), _presets(info.voices)]
    words += [what for what, is_there in _abilities(info) if is_there]
    rate = f"{info.sample_rate / 1000:g} kHz"
    return f"{', '.join(word for word in words if word)}; {rate}"


def _languages(codes: tuple[str, ...]) -> str:
    return name_of(codes[0]).capitalize() if len(codes) == 1 else f"{len(codes) or 'many'} languages"


def _presets(voices: tuple[str, ...]) -> str:
    if not voices:
        return ""
    return f"voice {voices[0]}" if len(voices) == 1 else f"{len(voices)} preset voices"


def _abilities(info: ModelInfo) -> tuple[tuple[str, bool], ...]:
    can = info.can
    return (
        ("cloning", can.clone),
        ("voices by description", can.design),
        ("instructions", can.instructions and not can.design),
    )
