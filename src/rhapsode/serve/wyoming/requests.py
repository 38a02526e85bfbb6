"""Turns Wyoming's events that ask for speech into orders of this server."""

from __future__ import annotations

import json
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from rhapsode.errors import InvalidRequest
from rhapsode.serve.request.intake import Order
from rhapsode.serve.request.schemas import Name, Text, read
from rhapsode.serve.response.errors import explain
from rhapsode.serve.service import Service

Data = TypeVar("Data", bound=BaseModel)


class _Data(BaseModel):
    """Strict about what it knows; clients may send more."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class WyomingVoice(_Data):
    name: Name | None = None
    language: Name | None = None
    speaker: Name | None = None


class SynthesizeStart(_Data):
    """The data of `synthesize-start`: everything but the text."""

    voice: WyomingVoice | None = None
    text_format: Literal["text", "ssml"] | None = None

    def fields(self, sample_rate: int) -> dict[str, Any]:
        """Returns the same request as fields of this server's own API: 16-bit samples at the model's rate."""
        voice = self.voice or WyomingVoice()
        if voice.speaker is not None:
            raise InvalidRequest("no voice has several speakers here: choose a voice by its name.", param="voice")
        fields = {"voice": voice.name, "language": voice.language, "input_type": self.text_format}
        return {**fields, "response_format": "pcm", "sample_rate": sample_rate}


class SynthesizeText(SynthesizeStart):
    """The data of `synthesize`."""

    text: Text


class TextChunk(_Data):
    """The data of `synthesize-chunk`: a piece of text, cut anywhere."""

    text: Text


async def whole_order(service: Service, data: dict[str, Any]) -> Order:
    """Returns the order of a `synthesize` event, with its text."""
    body = validated(SynthesizeText, data)
    fields = {**body.fields(service.info.sample_rate), "input": body.text}
    return await service.read(json.dumps(fields).encode())


async def open_order(service: Service, data: dict[str, Any]) -> Order:
    """Returns the order of a `synthesize-start` event, whose text follows."""
    fields = validated(SynthesizeStart, data).fields(service.info.sample_rate)
    body = await read(service.schemas.session, json.dumps(fields).encode())
    return await service.intake.read_voice(body, "pcm", "audio")


def chunk_text(data: dict[str, Any]) -> str:
    return validated(TextChunk, data).text


def validated(model: type[Data], data: dict[str, Any]) -> Data:
    """Returns the data of an event, or raises an error that says in one sentence what is wrong with it."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise explain(error, model.model_fields) from None
