"""Translates ElevenLabs' dialogues into the segments of this server's own API."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from rhapsode.checking.dialogue import check_count
from rhapsode.serve.elevenlabs.body import ElevenLabsVoice, with_bit_rate
from rhapsode.serve.elevenlabs.formats import ElevenLabsFormat
from rhapsode.serve.elevenlabs.premade import own_voice
from rhapsode.serve.request.intake import Order
from rhapsode.serve.request.lenient import leave_out
from rhapsode.serve.request.schemas import Name, Text, read
from rhapsode.serve.service import Service


class DialogueInput(BaseModel):
    """What one voice says next."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    text: Text
    voice_id: Name


class DialogueBody(ElevenLabsVoice):
    """Several voices in turn."""

    inputs: Annotated[list[DialogueInput], Field(min_length=1, max_length=10_000)]


async def read_dialogue(
    service: Service,
    data: bytes,
    audio: ElevenLabsFormat,
    ignored: tuple[str, ...],
    delivery: dict[str, Any],
    speakers: list[str],
) -> Order:
    """Reads the body of a dialogue, and adds the voice of each input to `speakers`, as the client names it.

    `ignored` are parameters outside the body that have no effect.
    """
    data, unknown = await leave_out(DialogueBody, data, ())
    body = await read(DialogueBody, data)
    check_count(len(body.inputs), service.deployment.limits)
    speakers += [part.voice_id for part in body.inputs]
    voices = {name: await own_voice(service, name) for name in set(speakers)}
    segments = [{"input": part.text, "voice": voices[part.voice_id]} for part in body.inputs]
    fields = {**body.fields(None, audio), "segments": segments, **delivery}
    order = with_bit_rate(await service.read(json.dumps(fields).encode()), audio)
    return replace(order, ignored=(*unknown, *body.without_effect(), *ignored))
