"""ElevenLabs' errors in the API reference."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class ElevenLabsErrorDetail(BaseModel):
    status: str
    message: str


class ElevenLabsError(BaseModel):
    """The body of every error on ElevenLabs' routes."""

    detail: ElevenLabsErrorDetail


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ElevenLabsError} for status in (400, 401, 404, 409, 413, 415, 429, 503, 504)
}
