"""Translates requests of ElevenLabs clients into the fields of this server's own API."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rhapsode.errors import InvalidRequest
from rhapsode.serve.elevenlabs.formats import ElevenLabsFormat
from rhapsode.serve.elevenlabs.premade import own_voice
from rhapsode.serve.request.intake import Order
from rhapsode.serve.request.lenient import leave_out
from rhapsode.serve.request.schemas import Name, Number, Strict, Text, read
from rhapsode.serve.service import Service

OWN_MODELS = "eleven_"
"""The prefix of ElevenLabs' model names. Each of these names stands for the served model."""


class ElevenLabsSettings(BaseModel):
    """Of these, only `speed` has an effect here. The others are taken, since clients always send them."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    speed: Annotated[float, Field(ge=0.25, le=4.0, allow_inf_nan=False)] | None = None
    stability: Number | None = None
    similarity_boost: Number | None = None
    style: Number | None = None
    use_speaker_boost: bool | None = None

    def without_effect(self) -> tuple[str, ...]:
        given = self.model_dump(exclude_none=True)
        return tuple(f"voice_settings.{name}" for name in given if name != "speed")


class ElevenLabsVoice(Strict):
    """All fields but the text. Fields that are not here have no effect."""

    model_id: Name | None = Field(None, description="The served model, or any of ElevenLabs' names.")
    language_code: Name | None = None
    voice_settings: ElevenLabsSettings | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    apply_text_normalization: Literal["auto", "on", "off"] | None = None
    pronunciation_dictionary_locators: Annotated[list[Any], Field(max_length=16)] | None = None

    def fields(self, voice_id: str | None, audio: ElevenLabsFormat) -> dict[str, Any]:
        """Returns the same request as fields of `POST /v1/audio/speech`."""
        if self.pronunciation_dictionary_locators:
            raise InvalidRequest(
                "there are no pronunciation dictionaries here: the deployment's lexicon respells words.",
                param="pronunciation_dictionary_locators",
            )
        model = None if self.model_id and self.model_id.startswith(OWN_MODELS) else self.model_id
        fields = {
            "voice": voice_id,
            "model": model or None,
            "language": self.language_code or None,
            "speed": self.voice_settings.speed if self.voice_settings else None,
            "seed": self.seed,
            "normalise": {"on": True, "off": False}.get(self.apply_text_normalization or "auto"),
            "response_format": audio.name,
            "sample_rate": audio.sample_rate,
            "channels": 1,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def without_effect(self) -> tuple[str, ...]:
        return self.voice_settings.without_effect() if self.voice_settings else ()


class ElevenLabsBody(ElevenLabsVoice):
    """One utterance."""

    text: Text


async def read_speech(
    service: Service,
    data: bytes,
    voice_id: str,
    audio: ElevenLabsFormat,
    ignored: tuple[str, ...],
    delivery: dict[str, Any],
) -> Order:
    """Reads the body of a speech request. `ignored` are parameters outside the body that have no effect.

    `delivery` are fields of this server's own API that say how the audio is sent.
    """
    data, unknown = await leave_out(ElevenLabsBody, data, ())
    body = await read(ElevenLabsBody, data)
    fields = {**body.fields(await own_voice(service, voice_id), audio), "input": body.text, **delivery}
    order = with_bit_rate(await service.read(json.dumps(fields).encode()), audio)
    return replace(order, ignored=(*unknown, *body.without_effect(), *ignored))


async def read_voice(service: Service, body: ElevenLabsVoice, voice_id: str, audio: ElevenLabsFormat) -> Order:
    """Returns the order of a request whose text arrives later."""
    given = body.fields(await own_voice(service, voice_id), audio)
    fields = await read(service.schemas.session, json.dumps(given).encode())
    return with_bit_rate(await service.intake.read_voice(fields, audio.name, "audio"), audio)


def with_bit_rate(order: Order, audio: ElevenLabsFormat) -> Order:
    if audio.bit_rate is None:
        return order
    delivery = replace(order.delivery, format=replace(order.delivery.format, bit_rate=audio.bit_rate))
    return replace(order, delivery=delivery)
