"""Describes a checkpoint: its voices, whose names begin with their language and gender. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rhapsode.models.kokoro.folder import CheckpointFiles, files_of
from rhapsode.types import ModelInfo

LANGUAGES = {"a": "en", "b": "en", "e": "es", "f": "fr", "h": "hi", "i": "it", "j": "ja", "p": "pt", "z": "zh"}
ACCENTS = {"a": "American", "b": "British", "p": "Brazilian"}
GENDERS = {"f": "female", "m": "male"}
FIRST = "af_heart"


def describe(info: ModelInfo, folder: Path, config: Mapping[str, Any]) -> ModelInfo:
    """Returns `info` with the voices of the checkpoint, and the languages of these voices."""
    names = voice_names(files_of(folder))
    return replace(
        info,
        voices=names,
        voice_facts={name: facts for name in names if (facts := _facts(name))},
        languages=tuple(dict.fromkeys(language_of(name) for name in names)),
    )


def voice_names(files: CheckpointFiles) -> tuple[str, ...]:
    """Returns the voices of a checkpoint; the first is used where a request names none."""
    return tuple(sorted((file.stem for file in files.voices), key=lambda name: (name != FIRST, name)))


def language_of(voice: str) -> str:
    """Returns the language that a voice speaks unless a request names another; of a mix, that of its first voice."""
    return LANGUAGES.get(voice[:1], "en")


def is_british(voice: str) -> bool:
    return ACCENTS.get(voice[:1]) == "British"


def _facts(name: str) -> dict[str, str]:
    if name[2:3] != "_":
        return {}
    found = {"gender": GENDERS.get(name[1]), "accent": ACCENTS.get(name[0])}
    return {fact: value for fact, value in found.items() if value}
