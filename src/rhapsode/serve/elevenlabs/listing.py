"""Lists voices and models in ElevenLabs' shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rhapsode.errors import InvalidRequest, UnknownVoice
from rhapsode.serve.elevenlabs.premade import own_voice
from rhapsode.serve.request.names import DEFAULT_VOICE, served_id
from rhapsode.serve.response.errors import MAX_SHOWN_CHARS
from rhapsode.serve.service import Service
from rhapsode.serve.voice_list import known_voices
from rhapsode.text.language import name_of
from rhapsode.voices.name import name_key

_CATEGORIES = {"preset": "premade", "uploaded": "cloned"}


async def list_voices(service: Service) -> list[dict[str, Any]]:
    """Returns presets, uploaded voices and the deployment's aliases; if there are none, the default voice."""
    own = set(service.intake.aliases.names)
    found = [voice for voice in await known_voices(service) if voice["kind"] != "alias" or voice["id"] in own]
    if not found and service.info.default_voice:
        found = [{"id": DEFAULT_VOICE, "name": DEFAULT_VOICE, "kind": "preset"}]
    return [_voice(service, voice) for voice in found]


def _voice(service: Service, voice: dict[str, Any]) -> dict[str, Any]:
    languages = [{"language": code, "model_id": served_id(service.deployment)} for code in service.info.languages]
    alias_of = voice.get("alias_of")
    return {
        "voice_id": voice["id"],
        "name": voice["name"],
        "category": _CATEGORIES.get(voice["kind"], "premade"),
        "labels": {fact: voice[fact] for fact in ("gender", "accent") if fact in voice},
        "description": f"another name of {alias_of}" if alias_of else None,
        "preview_url": None,
        "available_for_tiers": [],
        "settings": {"speed": 1.0},
        "verified_languages": languages,
        "high_quality_base_model_ids": [served_id(service.deployment)],
    }


async def find_voice(service: Service, voice_id: str) -> dict[str, Any]:
    """Returns one voice, by its id or its name."""
    for voice in await list_voices(service):
        if voice["voice_id"] == voice_id or name_key(voice["name"]) == name_key(voice_id):
            return voice
    if (preset := await own_voice(service, voice_id)) != voice_id:
        return {**await find_voice(service, preset), "voice_id": voice_id}
    raise UnknownVoice(f"there is no voice '{voice_id[:MAX_SHOWN_CHARS]}' here.", param="voice_id")


def search(
    voices: Sequence[dict[str, Any]], words: str, category: str | None, ids: Sequence[str]
) -> list[dict[str, Any]]:
    """Returns the voices whose name has all these words, of this category and with one of these ids."""
    return [
        voice
        for voice in voices
        if all(word in voice["name"].lower() for word in words.lower().split())
        and category in (None, voice["category"])
        and (not ids or voice["voice_id"] in ids)
    ]


def page(voices: Sequence[dict[str, Any]], size: int, token: str | None) -> dict[str, Any]:
    """Returns one page of a search; the token of a page is the number of voices before it."""
    if token and not (token.isdecimal() and len(token) < 9):
        raise InvalidRequest("'next_page_token' must be the one of the page before.", param="next_page_token")
    start = int(token or 0)
    has_more = len(voices) > start + size
    return {
        "voices": list(voices[start : start + size]),
        "has_more": has_more,
        "total_count": len(voices),
        "next_page_token": str(start + size) if has_more else None,
    }


def list_models(service: Service) -> list[dict[str, Any]]:
    """Returns the served model."""
    name, most = served_id(service.deployment), service.deployment.limits.max_text_chars
    return [
        {
            "model_id": name,
            "name": name,
            "description": service.info.summary,
            "can_be_finetuned": False,
            "can_do_text_to_speech": True,
            "can_do_voice_conversion": False,
            "can_use_style": False,
            "can_use_speaker_boost": False,
            "serves_pro_voices": False,
            "requires_alpha_access": False,
            "token_cost_factor": 0.0,
            "max_characters_request_free_user": most,
            "max_characters_request_subscribed_user": most,
            "maximum_text_length_per_request": most,
            "languages": [{"language_id": code, "name": name_of(code).title()} for code in service.info.languages],
            "model_rates": {"character_cost_multiplier": 0.0},
            "concurrency_group": "standard",
        }
    ]
