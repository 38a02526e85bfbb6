"""The servers that can be measured, and how each wants to be asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from rhapsode.errors import InvalidRequest, did_you_mean

ROUTE = "/v1/audio/speech"


@dataclass(frozen=True)
class Dialect:
    """What one kind of server expects beside the text."""

    name: str
    fields: Mapping[str, Any]
    model: str | None = None
    voice: str | None = None
    seed: bool = False
    """Whether it takes a seed."""


DIALECTS = {
    dialect.name: dialect
    for dialect in (
        Dialect("rhapsode", {"response_format": "pcm", "stream": True, "stream_format": "audio"}, seed=True),
        Dialect("vllm-omni", {"response_format": "pcm", "stream": True}),
        Dialect("sglang-omni", {"response_format": "pcm", "stream": True}),
        Dialect("openai", {"response_format": "pcm", "stream_format": "audio"}, model="gpt-4o-mini-tts", voice="alloy"),
    )
}


@dataclass(frozen=True)
class Target:
    """One server, asked in its own dialect."""

    url: str
    dialect: Dialect
    model: str | None = None
    voice: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the body that override all others; None removes one."""
    api_key: str | None = None

    def body(self, text: str, seed: int) -> dict[str, Any]:
        wanted = {
            "input": text,
            "model": self.model or self.dialect.model,
            "voice": self.voice or self.dialect.voice,
            "seed": seed if self.dialect.seed else None,
            **self.dialect.fields,
            **self.extra,
        }
        return {name: value for name, value in wanted.items() if value is not None}

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}


def make_target(
    url: str, dialect: str, model: str | None = None, voice: str | None = None, extra: Mapping[str, Any] | None = None
) -> Target:
    """`url` may be a server's root; the key is `OPENAI_API_KEY`'s, where it is set and the dialect is OpenAI's."""
    if dialect not in DIALECTS:
        raise InvalidRequest(f"unknown target '{dialect}': {did_you_mean(dialect, DIALECTS)}")
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidRequest(f"'{url}' is not the address of a server: http://host:port is.")
    path = parts.path.rstrip("/")
    path = f"{path}/audio/speech" if path.endswith("/v1") else path or ROUTE
    key = os.environ.get("OPENAI_API_KEY") if dialect == "openai" else os.environ.get("SPEECH_API_KEY")
    return Target(parts._replace(path=path).geturl(), DIALECTS[dialect], model, voice, dict(extra or {}), key)
