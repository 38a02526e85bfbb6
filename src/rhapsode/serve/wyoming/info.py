"""The answer to Wyoming's `describe` event: the model, the voices and the languages that this server offers."""

from __future__ import annotations

from typing import Any

from rhapsode import __version__
from rhapsode.serve.request.names import DEFAULT_VOICE, served_id
from rhapsode.serve.service import Service
from rhapsode.serve.voice_list import own_voices

_MAKER = {"name": "Rhapsode", "url": ""}
_ANY_LANGUAGE = ("en",)
"""The language to list for a checkpoint that speaks any: Home Assistant finds voices by language only."""


async def describe(service: Service) -> dict[str, Any]:
    """Returns the served model as a text-to-speech program, with the voices and languages of its checkpoint."""
    voices = await own_voices(service)
    if not voices and service.info.default_voice:
        voices = [{"name": DEFAULT_VOICE}]
    program = {
        **_artifact(served_id(service.deployment), service.info.summary),
        "voices": [_voice(service, voice) for voice in voices],
        "supports_synthesize_streaming": True,  # a model that cannot take text while it speaks gets it by sentence
    }
    others = ("asr", "handle", "intent", "wake", "mic", "snd")
    return {"tts": [program], **{name: [] for name in others}}


def _voice(service: Service, voice: dict[str, Any]) -> dict[str, Any]:
    languages, is_here = list(service.info.languages or _ANY_LANGUAGE), not voice.get("to_download", False)
    return {**_artifact(voice["name"], voice["name"], is_here), "languages": languages, "speakers": None}


def _artifact(name: str, description: str, installed: bool = True) -> dict[str, Any]:
    return {
        "name": name,
        "attribution": _MAKER,
        "installed": installed,
        "description": description,
        "version": __version__,
    }
