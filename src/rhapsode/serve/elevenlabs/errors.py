"""Errors in ElevenLabs' shape, on ElevenLabs' routes."""

from __future__ import annotations

from typing import Any

from starlette.types import Scope

from rhapsode.errors import RhapsodeError, UnknownVoice
from rhapsode.serve.request.header import header

OWN = ("/v1/text-to-speech", "/v1/text-to-dialogue", "/v1/voices", "/v2/voices", "/v1/user")
OURS = "/v1/audio/"
"""Our own routes, which take ElevenLabs' key header, too."""
KEY_HEADER = b"xi-api-key"
ADD_VOICE = "/v1/voices/add"


def is_elevenlabs(scope: Scope) -> bool:
    """Returns whether a request comes from a client of ElevenLabs: by its path, or else by its key header."""
    path: str = scope["path"]
    return path.startswith(OWN) or (not path.startswith(OURS) and bool(header(scope, KEY_HEADER)))


def status_of(error: RhapsodeError) -> int:
    """Returns the HTTP status: 404 for an unknown voice, since the voice is part of the path here."""
    return 404 if isinstance(error, UnknownVoice) else error.status


def detail_of(error: RhapsodeError) -> dict[str, Any]:
    """Returns the JSON body of an error."""
    code = "voice_not_found" if isinstance(error, UnknownVoice) else error.code
    return {"detail": {"status": code, "message": error.message}}
