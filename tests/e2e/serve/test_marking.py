"""A server that marks what it makes: every way out of it carries the watermark, and the log says who asked."""

from __future__ import annotations

import base64
import io
import json
import time
import wave
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import av
import numpy as np
import pytest
from websockets.sync.client import connect

from e2e.serve.running import Running, heard, in_thread, running
from rhapsode.audio.encode import encode
from rhapsode.config.server import key_id
from rhapsode.marking.detect import detect
from rhapsode.marking.payload import Payload
from rhapsode.types import Clip
from tiny.voxcpm2 import SAMPLE_RATE, Tiny, reference_audio, write
from unit.command import rhapsode

TEXT = "The quick brown fox jumps over the lazy dog, and then it sleeps for a while in the long grass by the river."
KEY = "key-of-the-test"
MARKING = {"watermark": True, "metadata": True, "deployment": "radio"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("marking")


@pytest.fixture(scope="module")
def radio(folder) -> Iterator[Running]:
    server = {"api_keys": [KEY], "audit": str(folder / "audit.jsonl")}
    with running("hibari", folder, marking=MARKING, server=server) as found:
        found.http.headers["Authorization"] = f"Bearer {KEY}"
        yield found


def is_of_radio(clip: Clip) -> bool:
    found = detect(clip)
    made = found.payload.time if found.payload else datetime.min.replace(tzinfo=UTC)
    return (
        found.found
        and found.payload is not None
        and found.payload.is_from("radio")
        and timedelta() <= datetime.now(UTC) - made < timedelta(hours=2)
    )


@pytest.mark.parametrize("response_format", ["mp3", "opus", "aac", "flac", "wav", "pcm"])
def test_every_format_is_marked_as_a_stream_and_as_a_file(radio, response_format):
    for more in ({}, {"stream": False}):
        answer = radio.speak(TEXT, response_format=response_format, seed=1, **more)
        assert answer.status_code == 200
        assert is_of_radio(heard(answer.content, response_format))


def test_the_stream_equals_the_whole(radio):
    fields = {"response_format": "flac", "seed": 1}
    streamed = radio.speak(TEXT, **fields)
    whole = radio.speak(TEXT, stream=False, **fields)
    assert np.array_equal(heard(streamed.content, "flac").samples, heard(whole.content, "flac").samples)


@pytest.mark.parametrize("fields", [{"speed": 1.3}, {"sample_rate": 16_000}, {"channels": 2}, {"speed": 0.8}])
def test_speed_rate_and_channels_leave_it_there(radio, fields):
    assert is_of_radio(heard(radio.speak(TEXT, response_format="wav", **fields).content, "wav"))


def test_events_and_batches_are_marked(radio):
    events = radio.speak(TEXT, response_format="pcm", stream_format="sse").text.split("\n\n")
    deltas = [json.loads(event.partition("data: ")[2]) for event in events if "audio.delta" in event]
    pcm = b"".join(base64.b64decode(delta["audio"]) for delta in deltas)
    assert is_of_radio(heard(pcm, "pcm"))
    batch = radio.http.post("/v1/audio/speech/batch", json={"items": [{"input": TEXT}]}).json()
    assert is_of_radio(heard(base64.b64decode(batch["results"][0]["audio_data"]), "mp3"))


def test_a_websocket_is_marked(radio):
    with connect(radio.socket_url, additional_headers={"Authorization": f"Bearer {KEY}"}) as socket:
        socket.send(json.dumps({"type": "session.config", "response_format": "pcm"}))
        socket.send(json.dumps({"type": "input.text", "text": TEXT}))
        socket.send(json.dumps({"type": "input.done"}))
        pcm = b""
        while not (isinstance(message := socket.recv(timeout=30), str) and "session.done" in message):
            pcm += message if isinstance(message, bytes) else b""
    assert is_of_radio(heard(pcm, "pcm"))


def test_files_say_that_they_are_synthetic(radio):
    data = radio.speak(TEXT, response_format="mp3").content
    with av.open(io.BytesIO(data)) as container:
        assert container.metadata["comment"] == "AI-generated speech, made with Rhapsode by radio"


# --- detection ---


def test_the_detect_route_knows_our_audio_and_its_hour(radio):
    data = radio.speak(TEXT, response_format="opus").content
    for sent in (
        {"files": {"file": ("speech.opus", data)}},
        {"content": data, "headers": {"Content-Type": "audio/ogg"}},
    ):
        answer = radio.http.post("/v1/audio/detect", **sent)
        found = answer.json()
        assert answer.status_code == 200
        assert (found["found"], found["is_this_deployment"]) == (True, True)
        assert found["deployment"] == f"{Payload.at('radio', datetime.now(UTC)).deployment:04x}"
        assert found["confidence"] > 0.999
        assert abs(datetime.fromisoformat(found["time"]) - datetime.now(UTC)) < timedelta(hours=2)


def test_clean_audio_is_not_ours(radio):
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(16_000)
        wav.writeframes(np.random.default_rng(0).integers(-5000, 5000, 80_000, dtype=np.int16).tobytes())
    found = radio.http.post("/v1/audio/detect", files={"file": ("noise.wav", file.getvalue())}).json()
    assert (found["found"], found["deployment"], found["time"]) == (False, None, None)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"files": {"file": ("x.wav", b"no audio at all")}}, 400),
        ({"files": {"other": ("x.wav", b"RIFF")}}, 400),
        ({"data": {"file": "text"}, "files": {"more": ("x", b"x")}}, 400),
        ({"content": b"", "headers": {"Content-Type": "audio/wav"}}, 400),
        ({"json": {"file": "x"}}, 415),
        ({"content": b"0" * (41 * 2**20), "headers": {"Content-Type": "audio/wav"}}, 413),
    ],
)
def test_bad_uploads_are_refused_in_one_sentence(radio, sent, status):
    answer = radio.http.post("/v1/audio/detect", **sent)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_detection_needs_the_key(radio):
    answer = radio.http.post("/v1/audio/detect", content=b"x", headers={"Authorization": "Bearer wrong"})
    assert answer.status_code == 401


@pytest.mark.slow
def test_the_command_says_and_detects(folder, radio):
    quick = {"RHAPSODE_MODEL": "hibari", "RHAPSODE_MARKING__WATERMARK": "true", "RHAPSODE_MARKING__DEPLOYMENT": "radio"}
    said = rhapsode("say", "--no-play", TEXT, "-o", "marked.opus", cwd=folder, **quick)
    assert said.returncode == 0, said.stderr
    assert rhapsode("say", "--no-play", TEXT, "-o", "clean.wav", cwd=folder, RHAPSODE_MODEL="hibari").returncode == 0
    named = rhapsode("detect", "marked.opus", cwd=folder, RHAPSODE_MARKING__DEPLOYMENT="radio")
    assert named.returncode == 0
    assert "watermark found: deployment" in named.stdout.decode()
    assert "('radio')" in named.stdout.decode()
    both = rhapsode("detect", "--json", "marked.opus", "clean.wav", cwd=folder)
    assert both.returncode == 1
    assert [json.loads(line)["found"] for line in both.stdout.splitlines()] == [True, False]
    assert rhapsode("detect", "absent.wav", cwd=folder).stderr.decode().startswith("rhapsode: ")


# --- the audit log, and consent ---


def test_the_audit_log_has_a_line_for_every_request(radio, folder):
    answer = radio.speak("A secret sentence.", voice="alloy")
    for _ in range(100):
        lines = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
        mine = [line for line in lines if line["request_id"] == answer.headers["X-Request-Id"]]
        if mine:
            break
        time.sleep(0.05)
    assert mine[0]["key"] == key_id(KEY.encode())
    assert (mine[0]["model"], mine[0]["voice"], mine[0]["outcome"]) == ("hibari", "alloy", "stop")
    assert mine[0]["audio_s"] > 0.5
    assert "secret" not in (folder / "audit.jsonl").read_text()


def test_consent_and_hash_of_a_reference_are_recorded_and_may_be_required(tmp_path):
    write(tmp_path / "tiny", Tiny(stop_shift=10.0, layers=(1, 1, 1)))
    sample = encode(Clip(reference_audio(6_000, 0)[None], SAMPLE_RATE), "wav")
    say = {"seed": 1, "max_len": 6, "inference_timesteps": 2}
    fields = {**say, "ref_audio": f"data:audio/wav;base64,{base64.b64encode(sample).decode()}"}
    server = {"audit": {"file": str(tmp_path / "audit.jsonl"), "text": True}, "require_consent": True}
    limits = {"max_concurrency": 1, "max_positions": 512}
    with in_thread(str(tmp_path / "tiny"), tmp_path, limits=limits, threads=1, server=server) as found:
        refused = found.speak("Hello.", **fields)
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "consent"
        assert found.speak("Hello.", consent="Ada agreed on 1 May.", **fields).status_code == 200
        assert found.speak("Hello.", **say).status_code == 200, "without a reference nobody's consent is needed"
    cloned, plain = (json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines())
    assert (cloned["consent"], cloned["references"]) == ("Ada agreed on 1 May.", [sha256(sample).hexdigest()])
    assert (plain["consent"], plain["references"]) == (None, [])
    assert cloned["text"] == "Hello."
