"""ElevenLabs' WebSockets, with ElevenLabs' own client and with messages that no client would send."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from e2e.clients.tls import behind_tls
from e2e.serve.running import LETTER_BYTES, Running, in_thread
from fuzzing import damaged, fuzzed
from spelling.family import LETTER_S as SPELT_S

SPEECH = "/v1/text-to-speech/low"


@contextmanager
def socket(
    server: Running, route: str = "stream-input", voice: str = "low", **query: Any
) -> Iterator[ClientConnection]:
    parameters = "&".join(f"{name}={value}" for name, value in {"output_format": "pcm_16000", **query}.items())
    url = f"ws{server.url.removeprefix('http')}/v1/text-to-speech/{voice}/{route}?{parameters}"
    with connect(url, proxy=None, max_size=None) as connection:
        yield connection


def send(connection: ClientConnection, *messages: dict[str, Any]) -> None:
    for message in messages:
        connection.send(json.dumps(message))


def receive(connection: ClientConnection) -> list[dict[str, Any]]:
    """All messages until the server closes."""
    messages = []
    try:
        while True:
            messages.append(json.loads(connection.recv(timeout=30)))
    except ConnectionClosed:
        return messages


def audio(messages: list[dict[str, Any]], context: str | None = None) -> bytes:
    mine = [message for message in messages if context is None or message.get("contextId") == context]
    return b"".join(base64.b64decode(message["audio"]) for message in mine if message.get("audio"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the client
def test_text_that_is_still_being_written_is_spoken(server: Running, tmp_path: Path, monkeypatch) -> None:
    elevenlabs = pytest.importorskip("elevenlabs.client", reason="the client is not installed: pip install elevenlabs")
    core = pytest.importorskip("elevenlabs.core")
    with behind_tls(server.port, tmp_path) as (url, authority):
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        monkeypatch.setenv("NO_PROXY", "localhost")
        client = elevenlabs.ElevenLabs(base_url=url, api_key="none", timeout=30)
        words = iter(["Hel", "lo, ", "the", "re. How", " are you?"])
        spoken = client.text_to_speech.convert_realtime(
            "low", text=words, model_id="eleven_flash_v2_5", output_format="pcm_16000"
        )
        letters = len(b"".join(spoken)) / LETTER_BYTES
        assert letters == pytest.approx(len("Hello, there. How are you?"), abs=3)  # the client adds spaces
        with pytest.raises(core.ApiError) as refused:
            list(client.text_to_speech.convert_realtime("nobody", text=iter(["Hi."] * 50)))
        assert refused.value.status_code == 1008
        assert "nobody" in str(refused.value.body)
    server.settle()


def spoken_at(messages: list[dict[str, Any]], *, from_start: bool, context: str | None = None) -> dict[str, float]:
    """When each word begins, in seconds, as clients find it in the alignments; words end at blanks."""
    found: dict[str, float] = {}
    word, began_ms, ended_ms = "", 0, 0
    for message in messages:
        alignment = message.get("alignment")
        assert message.get("normalizedAlignment") == alignment
        if not alignment or message.get("contextId") != context:
            continue
        times = alignment["chars"], alignment["charStartTimesMs"], alignment["charDurationsMs"]
        base_ms = 0 if from_start else ended_ms
        for char, start_ms, length_ms in zip(*times, strict=True):
            assert length_ms >= 0
            began_ms = began_ms if word else base_ms + start_ms
            ended_ms = base_ms + start_ms + length_ms
            if char == " " and word:
                found[word], word = began_ms / 1000, ""
            else:
                word += char.strip()
    assert not word
    return found


@pytest.mark.parametrize("query", [{"sync_alignment": "true"}, {}], ids=["asked for", "by default"])
def test_words_have_times_over_all_that_a_context_says(spelling: Running, query: dict[str, str]) -> None:
    with socket(spelling, voice="default", **query) as connection:
        send(connection, {"text": " "}, {"text": "It is "}, {"text": "here.", "flush": True})
        send(connection, {"text": " \nSo are we. "}, {"text": ""})
        messages = receive(connection)
        assert connection.close_code == 1000
    found = spoken_at(messages, from_start=bool(query))
    letters = "It is here.So are we. "
    expected = {word: letters.index(word) * SPELT_S for word in ("It", "is", "here.", "So", "are", "we.")}
    assert found == pytest.approx(expected, abs=0.05)
    with_audio = [message for message in messages if message.get("audio")]
    assert messages.index(with_audio[-1]) > messages.index(next(filter(lambda m: m.get("alignment"), messages)))


def test_times_are_as_the_client_hears_them_in_every_context(spelling: Running) -> None:
    with socket(spelling, "multi-stream-input", "default", sync_alignment="true") as connection:
        for name, speed in (("slow", 0.8), ("fast", 1.6)):
            start = {"text": " ", "context_id": name, "voice_settings": {"speed": speed}}
            send(connection, start, {"text": "It is here. ", "context_id": name})
        send(connection, {"close_socket": True})
        messages = receive(connection)
    for name, speed in (("slow", 0.8), ("fast", 1.6)):
        found = spoken_at(messages, from_start=True, context=name)
        assert found["here."] == pytest.approx(6 * SPELT_S / speed, abs=0.05)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"language_code": "ja", "sync_alignment": "true"}, "It is here."),
        ({"sync_alignment": "true"}, "7 \u3042\u3044 is here."),
        ({"sync_alignment": "true"}, "\u043f\u0440\u0438"),
        ({}, "7"),
        ({"sync_alignment": "false"}, "It is here."),
    ],
)
def test_speech_that_cannot_be_aligned_is_sent_without_times(
    spelling: Running, query: dict[str, str], text: str
) -> None:
    with socket(spelling, voice="default", **query) as connection:
        send(connection, {"text": text[:1]}, {"text": text[1:]}, {"text": ""})
        messages = receive(connection)
        assert connection.close_code == 1000
    assert audio(messages)
    assert not [message for message in messages if message.get("alignment")]


def test_a_flush_speaks_what_there_is_and_the_end_closes(server: Running) -> None:
    with socket(server) as connection:
        send(connection, {"text": " ", "voice_settings": {"speed": 1.0}}, {"text": "Hello", "flush": True})
        first = b""
        while len(first) < 5 * LETTER_BYTES:
            first += base64.b64decode(json.loads(connection.recv(timeout=30))["audio"])
        send(connection, {"text": "Again. "}, {"text": ""})
        rest = receive(connection)
        assert connection.close_code == 1000
    assert len(first) == 5 * LETTER_BYTES
    assert len(audio(rest)) == pytest.approx(7 * LETTER_BYTES, abs=LETTER_BYTES)
    assert rest[-1] == {"audio": None, "isFinal": True}


def test_contexts_are_spoken_side_by_side(server: Running) -> None:
    with socket(server, "multi-stream-input") as connection:
        for name in ("a", "b"):
            send(connection, {"text": " ", "context_id": name}, {"text": f"This is {name}.", "context_id": name})
        send(connection, {"text": "", "context_id": "a", "flush": True}, {"context_id": "a", "close_context": True})
        send(connection, {"contextId": "b", "flush": True}, {"close_socket": True})
        messages = receive(connection)
        assert connection.close_code == 1000
    for name in ("a", "b"):
        assert len(audio(messages, name)) == 10 * LETTER_BYTES
        assert [m.get("isFinal") for m in messages if m["contextId"] == name][-1] is True


def test_a_context_that_is_closed_before_a_flush_is_silent_at_once(server: Running) -> None:
    with socket(server, "multi-stream-input") as connection:
        send(connection, {"text": "x" * 900, "context_id": "a"})
        connection.recv(timeout=30)
        send(connection, {"context_id": "a", "close_context": True})
        while not (message := json.loads(connection.recv(timeout=30))).get("isFinal"):
            assert message["contextId"] == "a"
        send(connection, {"text": "Next.", "context_id": "a", "flush": True}, {"close_socket": True})
        assert len(audio(receive(connection))) == 5 * LETTER_BYTES
    server.settle()


def test_an_error_of_one_context_leaves_the_others_alone(server: Running) -> None:
    with socket(server, "multi-stream-input") as connection:
        send(connection, {"text": "x" * 2001, "context_id": "long"}, {"text": "Hi.", "context_id": "a", "flush": True})
        send(connection, {"close_socket": True})
        messages = receive(connection)
    (error,) = [message for message in messages if "error" in message]
    assert (error["error"], error["contextId"]) == ("text_too_long", "long")
    assert len(audio(messages, "a")) == 3 * LETTER_BYTES


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"output_format": "midi"}, None),
        ({"inactivity_timeout": "soon"}, None),
        ({"seed": "x"}, None),
        ({"sync_alignment": "maybe"}, None),
        ({"model_id": "whisper"}, {"text": " "}),
        ({"language_code": "x" * 99}, {"text": " "}),
        ({}, "not json"),
        ({}, []),
        ({}, {"text": 5}),
        ({}, {"text": "Hi.", "flush": "yes"}),
        ({}, {"text": " ", "voice_settings": {"speed": "fast"}}),
        ({}, {"text": "x" * 2001}),
        ({}, b"\x00"),
    ],
)
def test_what_makes_no_sense_is_told_before_the_socket_closes(server: Running, query: dict, message: Any) -> None:
    with socket(server, **query) as connection:
        if message is not None:
            connection.send(message if isinstance(message, str | bytes) else json.dumps(message))
        told = receive(connection)
        assert connection.close_code == 1008
    assert told[-1]["code"] == 1008
    assert told[-1]["message"]


def test_a_client_that_leaves_midway_frees_its_slots(server: Running) -> None:
    for route in ("stream-input", "multi-stream-input"):
        with socket(server, route) as connection:
            send(connection, {"text": "x" * 900})
            connection.recv(timeout=30)
    server.settle()


def test_a_socket_takes_the_key_in_their_header_and_ends_when_nothing_is_said(tmp_path: Path) -> None:
    small = {"max_concurrency": 2, "max_positions": 512}
    settings = {"api_keys": ["sk-1"], "socket": {"idle_s": 0.5}}
    with in_thread("dummy", tmp_path, limits=small, server=settings) as server:
        url = f"ws{server.url.removeprefix('http')}{SPEECH}/stream-input"
        with pytest.raises(InvalidStatus) as refused, connect(url, proxy=None):
            pass
        assert json.loads(refused.value.response.body)["detail"]["status"] == "invalid_api_key"
        with connect(url, proxy=None, additional_headers={"xi-api-key": "sk-1"}) as connection:
            assert receive(connection)[-1]["error"] == "timeout"


MESSAGES = [
    {"text": " ", "context_id": "a", "voice_settings": {"speed": 1}},
    {"text": "Hi.", "flush": True},
    {"text": ""},
]


@fuzzed(40)
@given(messages=damaged(MESSAGES))
def test_no_message_breaks_a_socket(server: Running, messages: Any) -> None:
    for route in ("stream-input", "multi-stream-input"):
        with socket(server, route, inactivity_timeout=1) as connection:
            try:
                for message in messages if isinstance(messages, list) else [messages]:
                    connection.send(json.dumps(message))
                connection.send(json.dumps({"close_socket": True, "text": ""}))
                receive(connection)
            except ConnectionClosed:
                pass
            assert connection.close_code in (1000, 1008)
