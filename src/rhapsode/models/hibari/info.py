"""Describes the wrapped package: voices that are on this machine, and voices to download. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hibari.voices import VOICES, voice_path

from rhapsode.checkpoints.hub import is_offline
from rhapsode.types import ModelInfo


def describe(info: ModelInfo, folder: Path | None, config: Mapping[str, Any]) -> ModelInfo:
    """Returns `info` with the voices on this machine and those to download (none if `HF_HUB_OFFLINE` is set)."""
    here = tuple(voice for voice in info.voices if is_here(voice))
    others = tuple(voice for voice in info.voices if voice not in here)
    return replace(info, voices=here, to_download=() if is_offline() else others, voice_facts=facts_of(VOICES))


def facts_of(voices: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Returns what the package declares of its voices."""
    return {
        name: {fact: about[fact] for fact in ("gender", "accent") if about.get(fact)} for name, about in voices.items()
    }


def is_here(voice: str) -> bool:
    """Returns whether a voice is in the package or was downloaded before."""
    try:
        voice_path(voice, download_missing=False)
    except (FileNotFoundError, ValueError):  # an older package does not know every voice
        return False
    return True
