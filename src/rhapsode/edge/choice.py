"""Reads from a request which model it names, and the key of the replica that may have cached its voice."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from rhapsode.config.served import ServedModels
from rhapsode.errors import InvalidRequest, UnknownModel
from rhapsode.serve.elevenlabs.body import OWN_MODELS
from rhapsode.serve.request.names import OPENAI_MODELS, OPENAI_VOICES, served_id
from rhapsode.serve.request.shape import BodyTooComplex, check_shape

SMALL_BYTES = 2**14
"""A larger body is parsed in a thread, so that other clients do not wait for it."""
MOST_NAME_CHARS = 512
"""The replica refuses a longer name of a model."""
DATED = "gpt-4o-mini-tts-"
"""OpenAI's name of a model before the date of its version."""
REFERENCES = ("ref_audio", "references", "prompt_audio", "speaker_embedding")


@dataclass(frozen=True)
class RoutingWish:
    """The fields of a request's body that the edge needs to choose a replica. The replica checks all others."""

    models: tuple[str, ...] = ()
    """All names in the body; the items of a batch may have different ones."""
    is_batch: bool = False
    voice: str | None = None
    """The name or id of the request's voice, or a hash of its references."""


async def read_wish(body: bytes, *, is_batch: bool = False) -> RoutingWish:
    """Returns the wish of a speech request or a batch; it is empty if the body is not a JSON object.

    What is wrong with a body, the replica says: any that it takes may be in there.
    """
    if len(body) <= SMALL_BYTES:
        return _read(body, is_batch)
    return await asyncio.to_thread(_read, body, is_batch)


async def read_elevenlabs_wish(body: bytes, voice: str | None) -> RoutingWish:
    """Returns the wish of a client of ElevenLabs, whose voice may be in the path. Each of ElevenLabs' own models is the
    first one."""
    fields = _fields(body) if len(body) <= SMALL_BYTES else await asyncio.to_thread(_fields, body)
    model = fields.get("model_id")
    if not isinstance(model, str) or not 0 < len(model) <= MOST_NAME_CHARS or model.startswith(OWN_MODELS):
        return RoutingWish(voice=voice)
    return RoutingWish((model,), voice=voice)


def _read(body: bytes, is_batch: bool) -> RoutingWish:
    fields = _fields(body)
    return _wish_of(fields, is_batch) if fields else RoutingWish()


def _fields(body: bytes) -> dict[str, Any]:
    """Returns the fields of a JSON object; none if the body is something else."""
    try:
        check_shape(body)
        fields = from_json(body)  # as the replica reads it: lone surrogates and deep nesting are errors
    except (ValueError, BodyTooComplex):
        return {}
    return fields if isinstance(fields, dict) else {}


def _wish_of(fields: Mapping[str, Any], is_batch: bool) -> RoutingWish:
    items = fields.get("items") if is_batch else None
    all_items = [fields, *(items if isinstance(items, list) else ())]
    named = (item.get("model") for item in all_items if isinstance(item, dict))
    models = dict.fromkeys(name for name in named if isinstance(name, str) and 0 < len(name) <= MOST_NAME_CHARS)
    return RoutingWish(tuple(models), is_batch, _voice(fields))


def _voice(fields: Mapping[str, Any]) -> str | None:
    given = [fields[name] for name in REFERENCES if fields.get(name)]
    if given:
        return hashlib.blake2b(json.dumps(given).encode(), digest_size=8).hexdigest()
    voice = fields.get("voice") or fields.get("speaker")
    voice = voice.get("id") if isinstance(voice, dict) else voice
    return voice if isinstance(voice, str) else None


def affinity(session: str, voice: str | None, presets: tuple[str, ...]) -> str | None:
    """Returns the key by which a replica is preferred: the session, or else a voice that has a reference to cache."""
    if session:
        return f"session:{session}"
    if voice is None or voice in presets or voice.lower() in OPENAI_VOICES:
        return None
    return f"voice:{voice}"


class ModelNames:
    """All names that stand for a model of the cluster."""

    def __init__(self, config: ServedModels) -> None:
        self.default = next(iter(config.models))
        self._known: dict[str, str] = {}
        for name in config.models:  # a model's own name takes precedence over an alias of another model
            self._known.setdefault(name, name)
        for name in config.models:
            deployment = config.deployment(name)
            for also in (deployment.model, served_id(deployment), *deployment.server.model_aliases):
                self._known.setdefault(also, name)
        for also in OPENAI_MODELS:
            self._known.setdefault(also, self.default)

    def known(self, name: str | None) -> str | None:
        """Returns the name if it stands for a model of the cluster."""
        return name if name in self._known else None

    def chosen(self, wish: RoutingWish, queried: str | None) -> str:
        """Returns the model of a request: that of its body, or else of its address, or else the first one.

        Names in a batch that are unknown are left to the replica, which has an answer for each item.
        """
        if not wish.is_batch:
            return self.find(next(iter(wish.models), None) or queried)
        found = {self.find(name) for name in wish.models if self._is_known(name)}
        if len(found) > 1:
            raise InvalidRequest("all items of a batch must name the same model.", param="items")
        return found.pop() if found else self.find(queried)

    def _is_known(self, name: str) -> bool:
        return name in self._known or name.startswith(DATED)

    def find(self, name: str | None) -> str:
        """Returns the model of this name, or raises `UnknownModel`; without a name returns the first model."""
        if not name:
            return self.default
        if name.startswith(DATED):
            return self._known[DATED.removesuffix("-")]
        if name not in self._known:
            models = [f"'{model}'" for model in dict.fromkeys(self._known.values())]
            served = f"{', '.join(models)} {'is' if len(models) == 1 else 'are'}"
            raise UnknownModel(f"the model '{name[:64]}' is not served here; {served}.", param="model")
        return self._known[name]
