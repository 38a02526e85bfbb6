"""Fish S2-Pro over HTTP: dialogues of cloned speakers, uploaded voices, text by WebSocket, and its errors."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.serve.running import Running, heard, in_thread
from e2e.serve.test_examples import run
from rhapsode.audio.encode import encode
from rhapsode.types import Clip
from tiny.fish_s2_pro import HOP, SAMPLE_RATE, Tiny, reference_audio, write
from unit.command import rhapsode

FORMATS = ("mp3", "pcm", *(pytest.param(one, marks=pytest.mark.slow) for one in ("opus", "aac", "flac", "wav")))
WAVS = [encode(Clip(reference_audio(400 + 200 * i, i)[None], SAMPLE_RATE), "wav") for i in range(2)]
URLS = [f"data:audio/wav;base64,{base64.b64encode(wav).decode()}" for wav in WAVS]
TWO = [{"audio": URLS[0], "text": "the first ref"}, {"audio": URLS[1], "text": "and the second"}]
DIALOGUE = "<|speaker:0|>Are you there? <|speaker:1|>[whisper] Yes, I am here. <|speaker:0|>Good."
SAY = {"seed": 1, "sample_rate": SAMPLE_RATE}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("fish")
    write(folder, Tiny(end_gain=1.3, seed=1))
    return folder


@pytest.fixture(scope="module")
def server(checkpoint: Path, tmp_path_factory) -> Iterator[Running]:
    # In float64, so that what is said twice is the same to the bit, however it was cut into chunks.
    settings = {"dtype": "float64", "limits": {"max_concurrency": 8, "max_positions": 4096}, "threads": 1}
    with in_thread(str(checkpoint), tmp_path_factory.mktemp("served"), **settings) as started:
        yield started


def say(server: Running, text: str = DIALOGUE, response_format: str = "pcm", **fields) -> bytes:
    rate = SAY if response_format == "pcm" else {"seed": 1}
    answer = server.speak(text, response_format=response_format, **{**rate, **fields})
    assert answer.status_code == 200, answer.text
    return answer.content


@pytest.mark.parametrize("chunk_length", [200, 30], ids=["one batch", "a batch per turn"])
def test_a_dialogue_of_two_cloned_speakers_streamed_is_the_dialogue_whole(server: Running, chunk_length: int) -> None:
    wish = {"references": TWO, "chunk_length": chunk_length}
    streamed, whole = (say(server, stream=stream, **wish) for stream in (True, False))
    assert streamed == whole
    assert len(whole) % (2 * HOP) == 0
    swapped = say(server, references=TWO[::-1], chunk_length=chunk_length)
    assert swapped != whole
    with server.http.stream(
        "POST", "/v1/audio/speech", json={"input": DIALOGUE, "response_format": "pcm", **SAY, **wish}
    ) as answer:
        chunks = list(answer.iter_bytes())
    assert b"".join(chunks) == whole
    assert len(chunks) > 1


@pytest.mark.parametrize("response_format", FORMATS)
def test_every_format(server: Running, response_format: str) -> None:
    data = say(server, DIALOGUE, response_format, references=TWO, chunk_length=30)  # a frame is 24 samples here
    clip = heard(data, response_format, SAMPLE_RATE)
    assert clip.samples.shape[1] > 1000
    assert abs(clip.samples).max() > 0.01


def test_uploaded_voices_speak_alone_and_together(server: Running) -> None:
    for i, name in enumerate(("Ada", "Bob")):
        form = {"name": name, "consent": "the speaker agrees", "text": TWO[i]["text"]}
        stored = server.http.post(
            "/v1/audio/voices", data=form, files={"audio_sample": ("a.wav", WAVS[i], "audio/wav")}
        )
        assert stored.status_code == 201, stored.text
    assert say(server, "Hello.", voice="Ada") == say(server, "Hello.", references=TWO[:1])
    together = [{"audio": "Ada"}, {"audio": "Bob"}]
    assert say(server, references=together) == say(server, references=TWO)
    # The same recording with other words is another voice.
    assert say(server, "Hello.", ref_audio="Ada", ref_text="other words") != say(server, "Hello.", voice="Ada")
    assert say(server, "Hello.", ref_audio=URLS[0]) != say(server, "Hello.")  # without a transcript, too
    for name in ("Ada", "Bob"):
        assert server.http.delete(f"/v1/audio/voices/{name}").status_code == 200


def test_text_sent_over_a_socket_is_spoken_turn_by_turn(server: Running) -> None:
    turns = "<|speaker:0|>Are you there? <|speaker:1|>Yes, I am here."
    whole = say(server, turns, references=TWO, chunk_length=20)
    assert server.converse(turns, 5, references=TWO, **SAY) == whole


@pytest.mark.slow
def test_the_command_clones_several_voices_here_and_from_a_server(server: Running, checkpoint: Path, tmp_path) -> None:
    given = []
    for i, wav in enumerate(WAVS):
        (tmp_path / f"{i}.wav").write_bytes(wav)
        given += ["--reference", f"{i}.wav", "--reference-text", TWO[i]["text"]]
    usual = ["say", DIALOGUE, "--no-play", "--seed", "1", "-o"]
    done = rhapsode(*usual, "remote.wav", *given, "--server", server.url, cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    remote = heard((tmp_path / "remote.wav").read_bytes(), "wav")
    assert remote.samples.shape[1] == len(say(server, references=TWO)) // 2
    local = rhapsode(*usual, "local.wav", *given, "-m", str(checkpoint), cwd=tmp_path)
    assert local.returncode == 0, local.stderr.decode()
    assert heard((tmp_path / "local.wav").read_bytes(), "wav").sample_rate == SAMPLE_RATE
    odd = rhapsode(*usual, "odd.wav", *given[:-2], "-m", str(checkpoint), cwd=tmp_path)
    assert "give one each" in odd.stderr.decode()


def test_the_example_makes_a_dialogue(server: Running, tmp_path) -> None:
    for i, wav in enumerate(WAVS):
        (tmp_path / f"{i}.wav").write_bytes(wav)
    told = run("fish_dialogue.py", "0.wav", "first words", "1.wav", "other words", server.url, cwd=tmp_path)
    assert "dialogue.wav" in told
    assert heard((tmp_path / "dialogue.wav").read_bytes(), "wav").sample_rate == SAMPLE_RATE


def test_what_it_can_do_and_its_licence_are_told(server: Running) -> None:
    model = server.http.get("/v1/models").json()["data"][0]
    assert "chunk_length" in model["options"]
    assert "Fish Audio Research License" in json.dumps(model)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"input": "<|speaker:0|><|speaker:1|>"}, "no words"),
        ({"chunk_length": 0}, "chunk_length"),
        ({"references": TWO[:1] * 9}, "8"),
        ({"references": [{"text": "words"}]}, "references"),
        ({"ref_audio": URLS[0], "ref_text": " "}, "transcript"),
        ({"ref_audio": "data:audio/wav;base64,AAAA"}, "ref_audio"),
        ({"prompt_audio": URLS[0], "prompt_text": "x"}, "continue recordings"),
        ({"speaker_embedding": [0.1] * 8}, "embedding"),
        ({"voice": "nobody"}, "nobody"),
    ],
)
def test_what_cannot_be_served_is_400(server: Running, fields: dict, words: str) -> None:
    answer = server.http.post("/v1/audio/speech", json={"input": "Hello.", **SAY, **fields})
    assert answer.status_code == 400
    assert words in answer.text


def test_a_text_that_leaves_no_room_to_speak_is_413(server: Running) -> None:
    answer = server.speak("word " * 800)
    assert answer.status_code == 413
    assert "positions" in answer.text
