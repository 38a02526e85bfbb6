"""ElevenLabs' own client, unchanged but for its base URL."""

import base64
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from e2e.serve.running import LETTER_BYTES, LETTER_S, Running, heard, in_thread
from fuzzing import damaged, fuzzed
from spelling.family import LETTER_S as TONE_EVERY_S

pytest.importorskip("elevenlabs", reason="the client is not installed: pip install elevenlabs")

import httpx
from elevenlabs import VoiceSettings
from elevenlabs.client import ElevenLabs
from elevenlabs.core import ApiError


@contextmanager
def connected(server: Running, key: str = "none") -> Iterator[ElevenLabs]:
    """The client, with connections that are closed at the end."""
    with httpx.Client(timeout=30, trust_env=False) as connections:
        yield ElevenLabs(base_url=server.url, api_key=key, httpx_client=connections)


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[ElevenLabs]:
    with connected(server) as client:
        yield client


def test_convert_gives_a_whole_file(client: ElevenLabs) -> None:
    data = b"".join(client.text_to_speech.convert("low", text="Hello there.", model_id="eleven_multilingual_v2"))
    clip = heard(data, "mp3")
    assert clip.sample_rate == 44_100
    assert clip.duration_s == pytest.approx(12 * LETTER_S, abs=0.1)


def test_it_converts_twenty_times_in_a_row_beside_an_idle_connection(client: ElevenLabs, server: Running) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as idle:
        for _ in range(20):
            data = b"".join(client.text_to_speech.convert("low", text="Hello there.", output_format="pcm_16000"))
            assert len(data) == 12 * LETTER_BYTES
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert idle.recv(4096).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("output_format", ["mp3_22050_32", "pcm_16000", "ulaw_8000", "opus_48000_64", "wav_24000"])
def test_stream_gives_the_format_that_was_asked_for(client: ElevenLabs, output_format: str) -> None:
    data = b"".join(client.text_to_speech.stream("low", text="Hello there.", output_format=output_format))
    seconds = {
        "mp3_22050_32": lambda: heard(data, "mp3").duration_s,
        "pcm_16000": lambda: len(data) / 32_000,
        "ulaw_8000": lambda: len(data) / 8_000,
        "opus_48000_64": lambda: heard(data, "opus").duration_s,
        "wav_24000": lambda: heard(data, "wav").duration_s,
    }
    assert seconds[output_format]() == pytest.approx(12 * LETTER_S, abs=0.1)


def test_the_bit_rate_is_the_one_in_the_name(client: ElevenLabs) -> None:
    sizes = {
        kilobits: len(
            b"".join(client.text_to_speech.convert("low", text="e" * 50, output_format=f"mp3_44100_{kilobits}"))
        )
        for kilobits in (32, 64, 192)
    }
    assert sizes[64] == pytest.approx(50 * LETTER_S * 8000, rel=0.1)
    assert sizes[32] < sizes[64] < sizes[192]


def test_speed_and_seed_have_an_effect_and_other_settings_are_named_as_ignored(client: ElevenLabs) -> None:
    settings = VoiceSettings(stability=0.5, similarity_boost=0.75, speed=1.25)
    request: dict[str, Any] = {"text": "x" * 50, "output_format": "pcm_16000", "seed": 7, "voice_settings": settings}
    with client.text_to_speech.with_raw_response.convert("low", **request, previous_text="And then.") as answer:
        data = b"".join(answer.data)
        ignored = answer.headers["x-ignored-fields"]
    assert len(data) / 32_000 == pytest.approx(50 * LETTER_S / 1.25, rel=0.05)
    assert set(ignored.split(", ")) == {
        "previous_text",
        "voice_settings.stability",
        "voice_settings.similarity_boost",
    }
    assert b"".join(client.text_to_speech.convert("low", **request)) == data


def test_voices_are_listed_found_and_described(client: ElevenLabs, server: Running) -> None:
    presets = server.http.get("/v1/models").json()["data"][0]["voices"]
    listed = client.voices.get_all().voices
    assert [voice.voice_id for voice in listed] == [*presets, "Rachel"]
    assert {voice.category for voice in listed} == {"premade"}
    assert client.voices.get("low").name == "low"
    found = client.voices.search(search="HIG", page_size=1)
    assert ([voice.name for voice in found.voices], found.has_more, found.total_count) == (["high"], False, 1)
    first = client.voices.search(page_size=1)
    second = client.voices.search(page_size=1, next_page_token=first.next_page_token)
    assert first.has_more
    assert [first.voices[0].voice_id, second.voices[0].voice_id] == list(presets)[:2]
    assert b"".join(client.text_to_speech.convert("Rachel", text="Hi."))


def test_models_are_in_the_shape_of_whoever_asks(client: ElevenLabs, server: Running) -> None:
    (model,) = client.models.list()
    assert (model.model_id, model.can_do_text_to_speech) == ("dummy", True)
    assert model.maximum_text_length_per_request == 2000
    assert b"".join(client.text_to_speech.convert("low", text="Hi.", model_id=model.model_id))
    assert "dummy" in [model.id for model in server.openai.models.list()]


@pytest.mark.parametrize(
    ("wrong", "status", "code"),
    [
        ({"voice_id": "21m00Tcm4TlvDq8ikWAX"}, 404, "voice_not_found"),
        ({"text": ""}, 400, "invalid_value"),
        ({"text": "x" * 2001}, 413, "text_too_long"),
        ({"model_id": "whisper"}, 404, "model_not_found"),
        ({"output_format": "mp3_1_1"}, 400, "invalid_value"),
        ({"voice_settings": {"speed": 9.0}}, 400, "invalid_value"),
        ({"language_code": 5}, 400, "invalid_value"),
        ({"pronunciation_dictionary_locators": [{"pronunciation_dictionary_id": "x"}]}, 400, "invalid_value"),
    ],
)
@pytest.mark.parametrize("method", ["convert", "stream"])
def test_errors_have_their_shape(
    client: ElevenLabs, method: str, wrong: dict[str, Any], status: int, code: str
) -> None:
    with pytest.raises(ApiError) as refused:
        b"".join(getattr(client.text_to_speech, method)(**{"voice_id": "low", "text": "Hi.", **wrong}))
    assert (refused.value.status_code, refused.value.body["detail"]["status"]) == (status, code)
    assert refused.value.body["detail"]["message"].endswith(".")


def test_a_voice_that_is_not_there_is_not_described(client: ElevenLabs) -> None:
    with pytest.raises(ApiError) as refused:
        client.voices.get("nobody")
    assert refused.value.status_code == 404


def test_keys_are_taken_where_the_client_puts_them(tmp_path: Path) -> None:
    small = {"max_concurrency": 2, "max_positions": 512}
    with in_thread("dummy", tmp_path, limits=small, server={"api_keys": ["sk-1"]}) as server:
        with connected(server, "sk-2") as stranger:
            speak = partial(stranger.text_to_speech.convert, "low", text="Hi.")
            for call in (lambda: b"".join(speak()), stranger.models.list, stranger.voices.search):
                with pytest.raises(ApiError) as refused:
                    call()
                assert (refused.value.status_code, refused.value.body["detail"]["status"]) == (401, "invalid_api_key")
        with connected(server, "sk-1") as known:
            assert b"".join(known.text_to_speech.convert("low", text="Hi."))
            assert known.models.list()


def test_the_time_of_each_character_is_told_whole_and_while_it_streams(spelling: Running) -> None:
    text = "It is here."
    with connected(spelling) as client:
        whole = client.text_to_speech.convert_with_timestamps("default", text=text, output_format="pcm_24000")
        parts = list(client.text_to_speech.stream_with_timestamps("default", text=text, output_format="pcm_24000"))
    alignment = whole.alignment
    assert alignment
    assert "".join(alignment.characters) == text
    starts = dict(zip(enumerate(alignment.characters), alignment.character_start_times_seconds, strict=True))
    assert starts[6, "h"] == pytest.approx(6 * TONE_EVERY_S, abs=0.05)
    streamed = [part.alignment for part in parts if part.alignment]
    assert "".join(char for part in streamed for char in part.characters) == text
    assert [s for part in streamed for s in part.character_start_times_seconds] == list(starts.values())
    audio = b"".join(base64.b64decode(part.audio_base_64) for part in parts)
    assert audio == base64.b64decode(whole.audio_base_64)


def test_a_dialogue_tells_the_time_of_each_character_and_who_speaks(spelling: Running) -> None:
    texts = ("It is here.", "No.", "It is there.")
    inputs = [{"text": text, "voice_id": "default"} for text in texts]
    with connected(spelling) as client:
        whole = client.text_to_dialogue.convert_with_timestamps(inputs=inputs, output_format="pcm_24000")
        parts = list(client.text_to_dialogue.stream_with_timestamps(inputs=inputs, output_format="pcm_24000"))
    assert "".join(whole.alignment.characters) == "\n".join(texts)
    for index, (segment, text) in enumerate(zip(whole.voice_segments, texts, strict=True)):
        span = slice(segment.character_start_index, segment.character_end_index)
        assert "".join(whole.alignment.characters[span]) == text
        assert segment.start_time_seconds == whole.alignment.character_start_times_seconds[span][0]
        assert segment.end_time_seconds == whole.alignment.character_end_times_seconds[span][-1]
        assert (segment.voice_id, segment.dialogue_input_index) == ("default", index)
    said = dict.fromkeys(range(len(texts)), "")
    for part in parts:
        for segment in part.voice_segments:
            span = slice(segment.character_start_index, segment.character_end_index)
            said[segment.dialogue_input_index] += "".join(part.alignment.characters[span])
    assert tuple(said.values()) == texts
    assert b"".join(base64.b64decode(part.audio_base_64) for part in parts) == base64.b64decode(whole.audio_base_64)


def test_times_of_characters_need_a_language_that_the_aligner_knows(spelling: Running) -> None:
    with connected(spelling) as client, pytest.raises(ApiError) as refused:
        client.text_to_speech.convert_with_timestamps("default", text="Guten Tag.", language_code="de")
    assert refused.value.status_code == 400
    assert "detail" in refused.value.body


BODY = {"text": "Hi.", "model_id": "eleven_v3", "voice_settings": {"speed": 1.0, "style": 0.1}, "seed": 1}
QUERY = {"output_format": "pcm_8000", "enable_logging": "true"}


@fuzzed(60)
@given(body=damaged(BODY), query=damaged(QUERY))
def test_no_body_is_a_server_error(server: Running, body: Any, query: Any) -> None:
    data = json.dumps(body, default=str).encode("utf-8", "surrogatepass")
    parameters = {k: str(v)[:99] for k, v in query.items() if str(v).isascii()} if isinstance(query, dict) else {}
    headers = {"Content-Type": "application/json"}
    answer = server.http.post("/v1/text-to-speech/low", content=data, params=parameters, headers=headers)
    assert answer.status_code < 500
    if answer.status_code >= 400:
        assert answer.json()["detail"].keys() == {"status", "message"}
