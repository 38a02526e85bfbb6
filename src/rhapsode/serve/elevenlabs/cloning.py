"""Instant cloning: stores a voice from the recordings of a form."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
from fastapi import Request
from pydantic import BaseModel, ConfigDict
from starlette.datastructures import UploadFile

from rhapsode.audio.resample import mono
from rhapsode.errors import BadAudio, InvalidRequest
from rhapsode.serve.request.schemas import Name, Sentence, read
from rhapsode.serve.request.shape import check_shape
from rhapsode.serve.routes.voices import VoiceBody, check_voice, form_of, save_voice
from rhapsode.serve.service import Service
from rhapsode.types import Clip
from rhapsode.voices.store import StoredVoice

MOST_FILES = 25
FILES = ("files", "files[]")


class CloningForm(BaseModel):
    """The texts of a form. Fields that are not here have no effect."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    name: Name
    consent: Sentence | None = None
    labels: Sentence | None = None


async def clone(service: Service, request: Request) -> StoredVoice:
    """Reads the form of a request, and stores its voice."""
    async with form_of(request, MOST_FILES) as form:
        fields, samples = await _read(form.multi_items())
    if not samples:
        raise InvalidRequest("send at least one recording in 'files'.", param="files")
    told = await read(CloningForm, json.dumps(fields).encode())
    consent = (told.consent or "").strip() or await asyncio.to_thread(_consent_in, told.labels)
    if not consent:
        raise InvalidRequest(
            "a cloned voice needs the consent of its owner: who agreed, and when. Send it as the field 'consent', or "
            'as one of the \'labels\', such as {"consent": "recorded by the speaker, 2025-06-01"}.',
            param="consent",
        )
    body = VoiceBody.model_construct(name=told.name, consent=consent)
    check_voice(body, has_sample=True, service=service)
    most = service.config.max_upload_bytes
    if sum(map(len, samples)) > most:
        raise BadAudio(f"at most {most} bytes are taken.", param="files")
    clips = [await service.references.clip(sample, "files") for sample in samples]
    return await save_voice(service, body, await asyncio.to_thread(_joined, clips, service.config.max_reference_s))


async def _read(items: list[tuple[str, Any]]) -> tuple[dict[str, str], list[bytes]]:
    fields: dict[str, str] = {}
    samples: list[bytes] = []
    for name, value in items:
        if isinstance(value, UploadFile):
            if name not in FILES:
                raise InvalidRequest("recordings belong into 'files'.", param=name)
            samples.append(await value.read())
        elif name in fields:
            raise InvalidRequest(f"the field '{name}' is given twice.", param=name)
        else:
            fields[name] = value
    return fields, samples


def _consent_in(labels: str | None) -> str:
    """Returns the label `consent`: clients of ElevenLabs can send labels of their own, but no other fields."""
    if not labels:
        return ""
    check_shape(labels.encode("utf-8", "surrogatepass"))
    try:
        found = json.loads(labels)
    except (ValueError, RecursionError):
        raise InvalidRequest("'labels' must be a JSON object of texts.", param="labels") from None
    consent = found.get("consent") if isinstance(found, dict) else None
    return consent.strip() if isinstance(consent, str) else ""


def _joined(clips: list[Clip], most_s: float) -> Clip:
    """Returns the recordings as one, which is what a voice is made of."""
    if len(clips) == 1:
        return clips[0]
    if (length_s := sum(clip.duration_s for clip in clips)) > most_s:
        raise BadAudio(f"the recordings have {length_s:.1f} s together: at most {most_s:g} s are taken.", param="files")
    rate = clips[0].sample_rate
    return Clip(np.concatenate([mono(clip, rate) for clip in clips])[np.newaxis], rate)
