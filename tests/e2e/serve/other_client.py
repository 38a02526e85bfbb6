"""A client of another server, whose URL alone was changed."""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import httpx2
from websockets.sync.client import ClientConnection, connect

SPEECH, VOICES, SOCKET = "/v1/audio/speech", "/v1/audio/voices", "/v1/audio/speech/stream"


class OtherClient:
    def __init__(self, url: str, key: str = "none", model: str | None = None) -> None:
        """`model` is for an address with several models: the client names none."""
        self.url = url
        self.query = {} if model is None else {"model": model}
        self.headers = {"Authorization": f"Bearer {key}"}
        shared = {"headers": self.headers, "params": self.query}
        self.http = httpx2.Client(base_url=url, **shared, timeout=150, trust_env=False)

    def ask(self, method: str, path: str, status: int = 200, **content: Any) -> httpx2.Response:
        answer = self.http.request(method, path, **content)
        assert answer.status_code == status, (answer.status_code, answer.text[:500])
        return answer

    def speak(self, status: int = 200, **fields: Any) -> httpx2.Response:
        return self.ask("POST", SPEECH, status, json={"input": "Hello there.", **fields})

    @contextmanager
    def socket(self, path: str = SOCKET) -> Iterator[ClientConnection]:
        url = f"ws{self.url.removeprefix('http')}{path}?{urlencode(self.query)}"
        with connect(url, additional_headers=self.headers, proxy=None, max_size=None) as socket:
            yield socket

    def session(self, *messages: dict[str, Any], until: str = "session.done") -> list[Any]:
        """What the server sends until an event: events, and the audio between them as bytes."""
        with self.socket() as socket:
            for message in messages:
                socket.send(json.dumps(message))
            return receive(socket, until)


def receive(socket: ClientConnection, until: str) -> list[Any]:
    found: list[Any] = []
    while not found or not isinstance(found[-1], dict) or found[-1]["type"] != until:
        message = socket.recv(timeout=30)
        found.append(message if isinstance(message, bytes) else json.loads(message))
        assert len(found) < 1000
    return found


def kinds(events: list[Any]) -> list[str]:
    """The types of events, with a run of audio as one `bytes`."""
    names = ["bytes" if isinstance(event, bytes) else event["type"] for event in events]
    return [name for at, name in enumerate(names) if name != "bytes" or names[at - 1] != "bytes" or not at]


def sse(answer: httpx2.Response) -> list[tuple[str, str]]:
    """The events of an answer: name and data."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in answer.text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines())
        if lines:
            found.append((lines.get("event", ""), lines["data"]))
    return found


def frames(data: bytes) -> tuple[int, int]:
    """How many frames a WAV file has, by its header and by its size."""
    with wave.open(io.BytesIO(data)) as file:
        width = file.getnchannels() * file.getsampwidth()
        return file.getnframes(), (len(data) - 44) // width
