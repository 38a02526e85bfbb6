"""Requests whose audio is known: text and seed decide every byte, so the audio of another request is noticed."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
from tools.soak.ledger import Violation
from tools.soak.served import Served

SPEECH = "/v1/audio/speech"
LONG = 4
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "haven", "iris", "juniper", "kestrel", "lagoon")
DELIVERIES: Sequence[Mapping[str, Any]] = (
    {"response_format": "pcm"},
    {"response_format": "wav", "stream": False},
    {"response_format": "pcm", "stream_format": "sse"},
    {"response_format": "flac"},
    {"response_format": "mp3", "stream": False},
    {"response_format": "pcm", "sample_rate": 48_000, "speed": 1.25},
    {"response_format": "aac"},
    {"response_format": "opus"},
    {"response_format": "wav", "channels": 2},
)


@dataclass(frozen=True)
class Case:
    """A body of a speech request, and the bytes it gave when it was alone on the server."""

    body: Mapping[str, Any]
    expected: bytes

    @property
    def is_whole(self) -> bool:
        return self.body.get("stream") is False

    @property
    def is_plain(self) -> bool:
        """Tells whether it is raw samples and nothing else, of which every prefix is known, too."""
        return self.body["response_format"] == "pcm" and len(self.body) == 3

    @property
    def is_long(self) -> bool:
        return len(self.body["input"]) > 20

    def check(self, data: bytes, *, may_be_cut: bool = False) -> None:
        """Raises unless these are the bytes of this request, or their beginning where that is allowed."""
        expected = self.expected[: len(data)] if may_be_cut and self.is_plain else self.expected
        if data != expected and not (may_be_cut and not self.is_plain):
            raise Violation(
                f"seed {self.body['seed']} ({self.body['response_format']}): wrong audio, "
                f"{len(data)} bytes where {len(self.expected)} are right"
            )


async def make_cases(served: Served, count: int) -> list[Case]:
    """Asks for each request twice, alone; both answers, and no two requests, must be the same."""
    cases = []
    for number in range(count):
        text = f"{WORDS[number % len(WORDS)]} {number}."
        text = " ".join([text] * (LONG if number % 6 == 0 else 1))
        for delivery in (DELIVERIES[0], DELIVERIES[1 + number % (len(DELIVERIES) - 1)]):
            body = {"input": text, "seed": 1000 + number, **delivery}
            first, second = [await fetch(served, body) for _ in range(2)]
            if first != second:
                raise Violation(f"the same request gave different bytes when repeated alone: {body}")
            cases.append(Case(body, first))
    plain = [case.expected for case in cases if case.is_plain]
    if len(set(plain)) != len(plain):
        raise Violation("two requests of the soak sound the same: it could not notice an exchange of audio")
    return cases


async def fetch(served: Served, body: Mapping[str, Any]) -> bytes:
    """Returns the audio of a request that must succeed."""
    async with served.http.post(f"{served.url}{SPEECH}", json=dict(body)) as answer:
        data = await answer.read()
        if answer.status != 200:
            raise Violation(f"{answer.status} for {body}: {data[:200]!r}")
    return audio_of(body, data)


def audio_of(body: Mapping[str, Any], data: bytes) -> bytes:
    """Returns the audio of an answer, which may be packed into events."""
    if body.get("stream_format") != "sse":
        return without_serials(data) if body["response_format"] == "opus" else data
    events = [json.loads(line[6:]) for line in data.decode().splitlines() if line.startswith("data: ")]
    if not events or events[-1]["type"] != "speech.audio.done":
        raise Violation(f"events without an end: {data[-200:]!r}")
    return b"".join(base64.b64decode(event["audio"]) for event in events[:-1])


def without_serials(data: bytes) -> bytes:
    """Returns an Ogg file without the random serial number and the checksum of each page."""
    return re.sub(rb"(OggS.{10}).{4}(.{4}).{4}", rb"\1\2", data, flags=re.DOTALL)


async def spoken(socket: aiohttp.ClientWebSocketResponse) -> bytes:
    """Returns the audio of one utterance of a WebSocket."""
    audio = b""
    async for message in socket:
        if message.type is aiohttp.WSMsgType.BINARY:
            audio += message.data
            continue
        fields = json.loads(message.data)
        if fields["type"] == "audio.chunk":
            audio += base64.b64decode(fields["audio_b64"])
        elif fields["type"] == "session.done":
            return audio
        elif fields["type"] == "error":
            raise Violation(f"a socket's utterance failed: {fields}")
    raise Violation(f"the socket closed before the utterance ended, with {socket.close_code}")
