"""Higgs v2 and v3 over HTTP: scenes, cloned speakers, tags, text by WebSocket, and their errors."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.serve.running import Running, heard, in_thread
from e2e.serve.test_examples import run
from rhapsode.audio.encode import encode
from rhapsode.types import Clip
from tiny.higgs import SAMPLE_RATE, Tiny, reference_audio, write
from tiny.higgs_codec import HOP
from unit.command import rhapsode

WAVS = [encode(Clip(reference_audio(3000 + 800 * i), SAMPLE_RATE), "wav") for i in range(2)]
URLS = [f"data:audio/wav;base64,{base64.b64encode(wav).decode()}" for wav in WAVS]
TWO = [{"audio": URLS[0], "text": "the first ref"}, {"audio": URLS[1], "text": "and the second"}]
DIALOGUE = "[SPEAKER0] Are you there? [SPEAKER1] Yes."
SAY = {"seed": 1, "sample_rate": SAMPLE_RATE, "response_format": "pcm"}
# In float64, so that what is said twice is the same to the bit, however it was cut into chunks.
SETTINGS = {"dtype": "float64", "limits": {"max_concurrency": 4, "max_positions": 4096}, "threads": 1}


@pytest.fixture(scope="module")
def v2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = write(tmp_path_factory.mktemp("higgs-v2"), Tiny(end_gain=0.8, seed=1))
    with in_thread(str(folder), tmp_path_factory.mktemp("served"), **SETTINGS) as started:
        yield started


@pytest.fixture(scope="module")
def v3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = write(tmp_path_factory.mktemp("higgs-v3"), Tiny(generation=3, end_gain=1.5, seed=2))
    with in_thread(str(folder), tmp_path_factory.mktemp("served"), **SETTINGS) as started:
        yield started


def say(server: Running, text: str = "Hello.", **fields) -> bytes:
    answer = server.speak(text, **{**SAY, **fields})
    assert answer.status_code == 200, answer.text
    return answer.content


def test_a_dialogue_of_cloned_speakers_streamed_is_the_dialogue_whole(v2: Running) -> None:
    streamed, whole = (say(v2, DIALOGUE, references=TWO, stream=stream) for stream in (True, False))
    assert streamed == whole
    assert len(whole) % (2 * HOP) == 0
    assert say(v2, DIALOGUE, references=TWO[::-1]) != whole


def test_modes_of_v2_are_different_speech(v2: Running) -> None:
    said = [
        say(v2),
        say(v2, instructions="Whisper."),
        say(v2, scene="A church."),
        say(v2, scene="A church.\n\nSPEAKER0: an old man"),
        say(v2, scene="SPEAKER0:", ref_audio=URLS[0]),
        say(v2, ref_audio=URLS[0]),
        say(v2, ref_audio=URLS[0], ref_text="the first ref"),
    ]
    assert len(set(said)) == len(said)
    chat = v2.http.post(
        "/v1/audio/speech",
        json={**SAY, "messages": [{"role": "system", "content": "Whisper."}, {"role": "user", "content": "Hello."}]},
    )
    assert chat.content == said[1]


def test_modes_of_v3_are_different_speech(v3: Running) -> None:
    said = [
        say(v3),
        say(v3, "<|emotion:elation|>Hello."),
        say(v3, "<|emotion:unknown|>Hello."),
        say(v3, ref_audio=URLS[0]),
        say(v3, ref_audio=URLS[0], ref_text="the first ref"),
    ]
    assert len(set(said)) == len(said)


def test_an_uploaded_voice_is_the_reference(v2: Running, v3: Running) -> None:
    for server in (v2, v3):
        form = {"name": "Ada", "consent": "the speaker agrees", "text": TWO[0]["text"]}
        files = {"audio_sample": ("a.wav", WAVS[0], "audio/wav")}
        assert server.http.post("/v1/audio/voices", data=form, files=files).status_code == 201
        assert say(server, voice="Ada") == say(server, ref_audio=URLS[0], ref_text=TWO[0]["text"])


def test_text_sent_over_a_socket_is_spoken_sentence_by_sentence(v2: Running) -> None:
    whole = say(v2, DIALOGUE, references=TWO, chunk="sentence")
    assert v2.converse(DIALOGUE, 7, references=TWO, **SAY) == whole


def test_the_command_clones_from_a_server(v3: Running, tmp_path: Path) -> None:
    (tmp_path / "voice.wav").write_bytes(WAVS[0])
    given = ["--reference", "voice.wav", "--reference-text", "the first ref", "--server", v3.url]
    done = rhapsode("say", "Hello.", "--no-play", "--seed", "1", "-o", "out.wav", *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    expected = len(say(v3, ref_audio=URLS[0], ref_text="the first ref")) // 2
    assert heard((tmp_path / "out.wav").read_bytes(), "wav").samples.shape[1] == expected


def test_the_examples_speak(v2: Running, v3: Running, tmp_path: Path) -> None:
    (tmp_path / "voice.wav").write_bytes(WAVS[0])
    assert "dialogue.wav" in run("higgs_dialogue.py", "voice.wav", v2.url, cwd=tmp_path)
    assert "cloned.wav" in run("higgs_clone.py", "voice.wav", "its words", v3.url, cwd=tmp_path)
    for name in ("dialogue.wav", "cloned.wav"):
        assert heard((tmp_path / name).read_bytes(), "wav").sample_rate == SAMPLE_RATE


def test_what_they_can_do_and_their_licences_are_told(v2: Running, v3: Running) -> None:
    models = [server.http.get("/v1/models").json()["data"][0] for server in (v2, v3)]
    assert {"scene", "chunk", "ras_window", "ras_limit"} <= set(models[0]["options"])
    assert set(models[1]["options"]) == {"chunk"}
    assert "community licence" in json.dumps(models[0])
    assert "no commercial use" in json.dumps(models[1])


@pytest.mark.parametrize(
    ("generation", "fields", "words"),
    [
        (2, {"input": "[SPEAKER0] [SPEAKER1]"}, "no words"),
        (2, {"scene": "SPEAKER0:\nSPEAKER1:", "references": TWO[:1]}, "scene"),
        (2, {"ras_window": 99}, "ras_window"),
        (2, {"references": TWO[:1] * 9}, "8"),
        (2, {"ref_audio": "data:audio/wav;base64,AAAA"}, "ref_audio"),
        (2, {"speaker_embedding": [0.1] * 8}, "embedding"),
        (3, {"scene": "A church."}, "scene"),
        (3, {"references": TWO}, "one reference"),
        (3, {"ref_audio": URLS[0], "ref_text": " "}, "transcript"),
        (3, {"voice": "nobody"}, "nobody"),
    ],
)
def test_what_cannot_be_served_is_400(request, generation: int, fields: dict, words: str) -> None:
    server: Running = request.getfixturevalue(f"v{generation}")
    answer = server.http.post("/v1/audio/speech", json={"input": "Hello.", **SAY, **fields})
    assert answer.status_code == 400
    assert words in answer.text
