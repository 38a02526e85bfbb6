"""Messages and parameters that clients of ElevenLabs' WebSockets send."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from rhapsode.errors import InvalidRequest
from rhapsode.serve.elevenlabs.body import ElevenLabsSettings, ElevenLabsVoice
from rhapsode.serve.request.schemas import SMALL_BYTES, Name, Text, parse
from rhapsode.serve.response.errors import explain

DEFAULT_CONTEXT = "default"
_VOICE_PARAMETERS = ("model_id", "language_code", "apply_text_normalization", "seed")


class InputMessage(BaseModel):
    """One message: text to append, and what else is to be done. Fields that are not here have no effect."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    text: Text | None = None
    flush: bool | None = None
    voice_settings: ElevenLabsSettings | None = None
    pronunciation_dictionary_locators: list[Any] | None = Field(None, max_length=16)
    context_id: Name | None = Field(None, validation_alias=AliasChoices("context_id", "contextId"))
    close_context: bool | None = None
    close_socket: bool | None = None


async def read_input(raw: str) -> InputMessage:
    """Parses a message without blocking the event loop."""
    data = raw.encode("utf-8", "surrogatepass")
    return parse(InputMessage, data) if len(data) <= SMALL_BYTES else await asyncio.to_thread(parse, InputMessage, data)


def voice_of(parameters: dict[str, str]) -> ElevenLabsVoice:
    """Returns the settings of the voice, which are query parameters in the URL of a WebSocket."""
    given = {name: parameters[name] for name in _VOICE_PARAMETERS if parameters.get(name)}
    try:
        return ElevenLabsVoice.model_validate(given, strict=False)
    except ValidationError as error:
        raise explain(error, ElevenLabsVoice.model_fields) from None


def idle_limit(parameters: dict[str, str], most_s: float) -> float:
    """Returns how many seconds a client may be idle: its `inactivity_timeout`, but at most `most_s`."""
    given = parameters.get("inactivity_timeout")
    if given is None:
        return most_s
    if not (given.isdecimal() and int(given[:9]) > 0):
        raise InvalidRequest("'inactivity_timeout' must be a number of seconds.", param="inactivity_timeout")
    return min(float(given[:9]), most_s)


def alignment_wish(parameters: dict[str, str]) -> bool | None:
    """Returns the `sync_alignment` of a client: whether it wants alignments with the audio; None if it does not say."""
    given = parameters.get("sync_alignment")
    if given is None:
        return None
    if given.lower() not in ("true", "false"):
        raise InvalidRequest("'sync_alignment' must be true or false.", param="sync_alignment")
    return given.lower() == "true"
