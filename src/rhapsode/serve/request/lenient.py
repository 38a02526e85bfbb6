"""Leaves out fields that have no meaning here, for clients that always send the fields of another server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from typing import Any

from pydantic import BaseModel

from rhapsode.models.abilities import ignored_instructions
from rhapsode.serve.request.effect import NEEDS
from rhapsode.serve.request.large import LargeObject
from rhapsode.serve.request.schemas import SMALL_BYTES
from rhapsode.serve.response.errors import MAX_SHOWN_CHARS
from rhapsode.types import ModelInfo

HEADER = "X-Ignored-Fields"
MOST_NAMED = 32
INSTRUCTIONS = ("instructions", "messages.system")
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# A field about the voice is never left out: the client would hear another voice.
_ABOUT_VOICES = {name for name in NEEDS if name != "instructions"}


async def leave_out(body: type[BaseModel], data: bytes, unused: Collection[str]) -> tuple[bytes, tuple[str, ...]]:
    """Leaves out the fields of a JSON body that are unknown or in `unused`; returns the body and their names."""
    if len(data) <= SMALL_BYTES:
        return _leave_out(body, data, unused)
    return await asyncio.to_thread(_leave_out, body, data, unused)


def _leave_out(body: type[BaseModel], data: bytes, unused: Collection[str]) -> tuple[bytes, tuple[str, ...]]:
    read = LargeObject(data)
    if read.fields is None:
        return data, ()  # the parser reports later what is wrong with it
    kept, left = split_fields(body, read.fields, unused)
    return (read.write(kept), left) if left else (data, ())


def split_fields(
    body: type[BaseModel], fields: dict[str, Any], unused: Collection[str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns the fields that are known and have an effect, and the names of the others."""
    useless = set(unused) - _ABOUT_VOICES
    kept = {name: value for name, value in fields.items() if name in body.model_fields and name not in useless}
    return kept, tuple(name for name in fields if name not in kept)


def warnings_of(names: Collection[str], info: ModelInfo) -> tuple[str, ...]:
    """Returns a sentence about each ignored field."""
    shown = list(names)[:MOST_NAMED]
    return tuple(
        ignored_instructions(info) if name in INSTRUCTIONS else f"the field '{name[:MAX_SHOWN_CHARS]}' was ignored."
        for name in shown
    )


def as_header(names: Collection[str]) -> dict[str, str]:
    """Returns the header that names ignored fields; a name that no header can hold is shown as `?`."""
    shown = [name if _PLAIN.fullmatch(name) else "?" for name in list(names)[:MOST_NAMED]]
    return {HEADER: ", ".join(shown)} if shown else {}
