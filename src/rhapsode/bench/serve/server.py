"""The kinds of servers that can be measured, and the request each expects."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from rhapsode.errors import InvalidRequest, did_you_mean

ROUTE = "/v1/audio/speech"


@dataclass(frozen=True)
class ServerKind:
    """What one kind of server expects in a request beside the text."""

    name: str
    fields: Mapping[str, Any]
    model: str | None = None
    voice: str | None = None
    seed: bool = False
    """Whether it takes a seed."""


KINDS = {
    kind.name: kind
    for kind in (
        ServerKind("rhapsode", {"response_format": "pcm", "stream": True, "stream_format": "audio"}, seed=True),
        ServerKind("vllm-omni", {"response_format": "pcm", "stream": True}),
        ServerKind("sglang-omni", {"response_format": "pcm", "stream": True}),
        ServerKind(
            "openai", {"response_format": "pcm", "stream_format": "audio"}, model="gpt-4o-mini-tts", voice="alloy"
        ),
    )
}


@dataclass(frozen=True)
class SpeechServer:
    """One server: its address, and how to make a request for it."""

    url: str
    kind: ServerKind
    model: str | None = None
    voice: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the body. They override all others; None removes a field."""
    api_key: str | None = None

    def body(self, text: str, seed: int) -> dict[str, Any]:
        wanted = {
            "input": text,
            "model": self.model or self.kind.model,
            "voice": self.voice or self.kind.voice,
            "seed": seed if self.kind.seed else None,
            **self.kind.fields,
            **self.extra,
        }
        return {name: value for name, value in wanted.items() if value is not None}

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}


def speech_server(
    url: str, kind: str, model: str | None = None, voice: str | None = None, extra: Mapping[str, Any] | None = None
) -> SpeechServer:
    """Returns a server to measure. `url` may be its root; its API key is `OPENAI_API_KEY` for OpenAI, else
    `SPEECH_API_KEY`."""
    if kind not in KINDS:
        raise InvalidRequest(f"unknown target '{kind}': {did_you_mean(kind, KINDS)}")
    address = urlsplit(url if "://" in url else f"http://{url}")
    if address.scheme not in ("http", "https") or not address.hostname:
        raise InvalidRequest(f"'{url}' is not the address of a server: http://host:port is.")
    path = address.path.rstrip("/")
    path = f"{path}/audio/speech" if path.endswith("/v1") else path or ROUTE
    key = os.environ.get("OPENAI_API_KEY") if kind == "openai" else os.environ.get("SPEECH_API_KEY")
    return SpeechServer(address._replace(path=path).geturl(), KINDS[kind], model, voice, dict(extra or {}), key)
