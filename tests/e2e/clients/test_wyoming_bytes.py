"""Bytes on the Wyoming port that no client would send."""

import json
import socket
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.serve.running import Running
from fuzzing import damaged, fuzzed

TIMEOUT_S = 30


@pytest.mark.parametrize(
    "raw",
    [
        b"\n",
        b"GET / HTTP/1.1\r\n",
        b"[]\n",
        b"{}\n",
        b'{"type": 5}\n',
        b'{"type": "describe", "data": []}\n',
        b'{"type": "describe", "data_length": -1}\n',
        b'{"type": "describe", "data_length": true}\n',
        b'{"type": "describe", "data_length": 1e400}\n',
        b'{"type": "describe", "data_length": 99999999999}\n',
        b'{"type": "describe", "payload_length": 99999999999}\n',
        b'{"type": "describe", "data_length": 2}\n[]',
        b'{"type": "describe", "data_length": 3}\n\xff\xff\xff',
        b"[" * 20_000 + b"\n",
        b"x" * 40_000,
    ],
)
def test_bytes_that_are_no_event_end_the_connection_with_a_reason(server: Running, raw: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.wyoming_port), timeout=TIMEOUT_S) as connection:
        connection.sendall(raw)
        answer = b""
        while part := connection.recv(4096):
            answer += part
    header, _, data = answer.partition(b"\n")
    assert json.loads(header)["type"] == "error"
    assert json.loads(data)["code"] in ("invalid_event", "body_too_complex")


def test_half_an_event_is_forgotten_with_its_client(server: Running) -> None:
    with socket.create_connection(("127.0.0.1", server.wyoming_port)) as connection:
        connection.sendall(b'{"type": "synthesize", "data_le')  # half a message
    deadline_s = time.monotonic() + TIMEOUT_S
    while server.metric("rhapsode_open_wyoming_connections"):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


VOICE = {"name": "low", "language": "en"}
EVENTS = [
    {"type": "describe", "data": {}},
    {"type": "synthesize-start", "data": {"voice": VOICE, "text_format": "text"}},
    {"type": "synthesize-chunk", "data": {"text": "Hi."}, "payload_length": 0},
    {"type": "synthesize-stop"},
    {"type": "synthesize", "data": {"text": "Hi.", "voice": VOICE}, "data_length": 0},
]


TEXTS = ["\ud800", "a\udfffb", "\x00", "\U0001f600", "", " "]
VALUES = [*TEXTS, 5, 1e308, True, None, [], ["\ud800"], {}, {"\udc00": "\x00"}]
PLACES = {
    "ping": ("text",),
    "describe": ("anything",),
    "synthesize": ("text", "text_format", "voice", "voice.name", "voice.language", "voice.speaker"),
    "synthesize-start": ("text_format", "voice", "voice.name", "voice.language", "voice.speaker"),
    "synthesize-chunk": ("text",),
    "synthesize-stop": ("anything",),
}


def exchange(server: Running, *events: dict[str, Any]) -> list[dict[str, Any]]:
    """The events that the server answers with, until it closes the connection or has nothing more to say."""
    raw = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    with socket.create_connection(("127.0.0.1", server.wyoming_port), timeout=TIMEOUT_S) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        answered = []
        with connection.makefile("rb") as stream:
            while line := stream.readline():
                header = json.loads(line)
                data = json.loads(stream.read(header.get("data_length", 0)) or "{}")
                stream.read(header.get("payload_length", 0))
                answered.append({"type": header["type"], "data": data})
    return answered


@pytest.mark.parametrize("text", TEXTS)
def test_a_ping_is_answered_with_its_text_whatever_that_is(server: Running, text: str) -> None:
    assert exchange(server, {"type": "ping", "data": {"text": text}}) == [{"type": "pong", "data": {"text": text}}]


@pytest.mark.parametrize("kind", PLACES)
def test_no_value_in_any_field_is_a_bug(server: Running, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    for place in PLACES[kind]:
        for value in VALUES:
            within, _, name = place.rpartition(".")
            data = {"text": "Hi."} if kind == "synthesize" else {}
            data |= {within: {name: value}} if within else {name: value}
            before = [{"type": "synthesize-start"}] if kind in ("synthesize-chunk", "synthesize-stop") else []
            answered = exchange(server, *before, {"type": kind, "data": data})
            codes = [event["data"]["code"] for event in answered if event["type"] == "error"]
            assert "internal_error" not in codes, (place, value)
            if kind == "synthesize" and place.startswith("voice.") and value in TEXTS[:2]:
                assert len(codes) == 1, (place, value, answered)
    answered = exchange(server, {"type": TEXTS[0], "data": {TEXTS[0]: TEXTS[0]}}, {"type": "ping"})
    assert [event["type"] for event in answered] == ["pong"]
    assert not [record for record in caplog.records if record.exc_info or record.levelname == "ERROR"]


@fuzzed(60)
@given(events=damaged(EVENTS), cut=st.integers(0, 400))
def test_damaged_events_are_no_bug(server: Running, events: Any, cut: int) -> None:
    lines = [json.dumps(event).encode() for event in (events if isinstance(events, list) else [events])]
    raw = b"\n".join(lines) + b"\n"
    with socket.create_connection(("127.0.0.1", server.wyoming_port), timeout=TIMEOUT_S) as connection:
        connection.sendall(raw[:-cut] if cut and cut % 3 == 0 else raw)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        with suppress(ConnectionResetError):
            while part := connection.recv(65_536):
                answer += part
    assert b"internal_error" not in answer
