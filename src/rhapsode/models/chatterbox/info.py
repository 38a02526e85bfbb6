"""Describes what a checkpoint can do: languages and preset depend on its T3 and on the files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rhapsode.checkpoints.tokenizer import listed_tokens
from rhapsode.models.chatterbox.config import read
from rhapsode.models.chatterbox.spec import PRESET, ChatterboxSettings
from rhapsode.models.chatterbox.text.languages import LANGUAGES
from rhapsode.models.chatterbox.text.tokenizer import MULTILINGUAL
from rhapsode.models.chatterbox.variants import Kind
from rhapsode.models.chatterbox.voice import FILE
from rhapsode.models.summary import summarise
from rhapsode.types import ModelInfo


def describe(info: ModelInfo, folder: Path, config: Mapping[str, Any], settings: ChatterboxSettings) -> ModelInfo:
    """Returns `info` of the family, narrowed to what the variant of the checkpoint in `folder` can do."""
    kind = read(config, folder, settings.t3).kind
    voices = (PRESET,) if (folder / FILE).is_file() or config else ()  # of a shape without weights, a random one
    described = replace(
        info,
        variant=kind.value,
        languages=_languages(folder) if kind is Kind.MULTILINGUAL else ("en",),
        can=replace(info.can, presets=bool(voices)),
        voices=voices,
        default_voice=bool(voices),
    )
    return replace(described, summary=summarise(described))


def _languages(folder: Path) -> tuple[str, ...]:
    """Returns the languages that the tokenizer has a token for."""
    known = listed_tokens(folder / MULTILINGUAL)
    return tuple(language for language in LANGUAGES if f"[{language}]" in known)
