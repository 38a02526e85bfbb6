"""Describes what a Voxtral-TTS checkpoint can do: presets, and cloning if it has an encoder. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rhapsode.checkpoints.header import tensor_names
from rhapsode.errors import CheckpointError
from rhapsode.models.summary import summarise
from rhapsode.models.voxtral_tts.config import read_codec
from rhapsode.types import Capabilities, ModelInfo

LICENCE = "(published weights: CC BY-NC 4.0)"
ENCODER = "audio_tokenizer.encoder_blocks."


def describe(info: ModelInfo, folder: Path, config: Mapping[str, Any]) -> ModelInfo:
    """Returns the abilities and voices of one checkpoint. The released one has no encoder, so it cannot clone."""
    codec = read_codec(config)
    if codec.sampling_rate != info.sample_rate:
        raise CheckpointError(f"'sampling_rate' is {codec.sampling_rate}; {info.family} has {info.sample_rate}.")
    described = replace(
        info,
        frame_hz=codec.sampling_rate / codec.hop,
        can=Capabilities(presets=bool(codec.voices), clone=has_encoder(folder)),
        voices=codec.voices,
        default_voice=bool(codec.voices),
    )
    return replace(described, summary=f"{summarise(described)} {LICENCE}")


def has_encoder(folder: Path) -> bool:
    """Returns whether a checkpoint can encode recordings."""
    return any(name.startswith(ENCODER) for name in tensor_names(folder))
