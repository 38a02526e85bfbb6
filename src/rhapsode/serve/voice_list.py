"""Lists the voices that the served checkpoint speaks with, for all protocols."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rhapsode.serve.request.names import OPENAI_VOICES, preset_for
from rhapsode.serve.service import Service
from rhapsode.types import ModelInfo
from rhapsode.voices.name import name_key
from rhapsode.voices.store import StoredVoice


async def own_voices(service: Service) -> list[dict[str, Any]]:
    """Returns the presets and the uploaded voices that the checkpoint speaks with."""
    stored = await asyncio.to_thread(service.store.list)
    return preset_voices(service.info) + [public_voice(voice) for voice in stored if voice.suits(service.info)]


def preset_voices(info: ModelInfo) -> list[dict[str, Any]]:
    """Returns the presets of a checkpoint, which need no engine to be known."""
    there = [_preset(name, info) for name in info.voices]
    return there + [{**_preset(name, info), "to_download": True} for name in info.to_download]


def names_only(voices: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns what is told of voices without a key."""
    return [{name: voice[name] for name in ("id", "name", "kind")} for voice in voices]


async def known_voices(service: Service) -> list[dict[str, Any]]:
    """Returns presets and uploaded voices, then the aliases and OpenAI names that stand for some of them."""
    info, aliases, known = service.info, service.intake.aliases, await own_voices(service)
    there = {name_key(voice["name"]) for voice in known} | {voice["id"] for voice in known}
    stands_for = {name: voice for name, voice in aliases.names.items() if {name_key(voice), voice} & there}
    for name in OPENAI_VOICES:
        if name not in info.presets and name not in aliases and (preset := preset_for(name, info.voices)):
            stands_for[name] = preset
    return known + [{"id": n, "name": n, "kind": "alias", "alias_of": voice} for n, voice in stands_for.items()]


def public_voice(voice: StoredVoice) -> dict[str, Any]:
    """Returns an uploaded voice as clients see it."""
    return {"object": "voice", "kind": "uploaded", **{k: v for k, v in asdict(voice).items() if v is not None}}


def _preset(name: str, info: ModelInfo) -> dict[str, Any]:
    """Returns a preset with what is declared of it."""
    return {"id": name, "name": name, "kind": "preset", **info.voice_facts.get(name, {})}
