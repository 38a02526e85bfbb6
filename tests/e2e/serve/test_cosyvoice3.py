"""CosyVoice3 over HTTP: every mode and format, text by WebSocket, the command, the example, and errors."""

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.serve.running import Running, heard, in_thread
from e2e.serve.test_examples import run
from rhapsode.audio.encode import encode
from rhapsode.models.cosyvoice3.reference import SPEAKER, SPEECH_TOKENIZER
from rhapsode.types import Clip
from tiny import onnx_model, weights
from tiny.cosyvoice3 import CODES, EMBEDDING, HOP, TinyCosyVoice, reference_audio, speaker_embedding, write
from unit.command import rhapsode

FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
WAV = encode(Clip(reference_audio(12_000)[None], 24_000), "wav")
URL = f"data:audio/wav;base64,{base64.b64encode(WAV).decode()}"
CLONE = {"ref_audio": URL, "ref_text": "the ref"}
TEXT = "Hello there. One two three."
EMBEDDED = speaker_embedding(0).tolist()
SAY = {"seed": 1, "max_new_tokens": 12}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    """With stand-ins of the networks that encode references."""
    folder = write(tmp_path_factory.mktemp("cosy"), TinyCosyVoice(end_gain=3.0))
    onnx_model.speaker(folder / SPEAKER, weights.spread("speaker.matrix", (80, EMBEDDING), 1.0, 0))
    onnx_model.speech_tokenizer(folder / SPEECH_TOKENIZER, CODES)
    return folder


@pytest.fixture(scope="module")
def server(checkpoint: Path, tmp_path_factory) -> Iterator[Running]:
    # In float64, so that what is said twice is the same to the bit, however it was cut into chunks.
    settings = {"dtype": "float64", "limits": {"max_concurrency": 4, "max_positions": 1024}, "threads": 1}
    with in_thread(str(checkpoint), tmp_path_factory.mktemp("served"), **settings) as started:
        yield started


def say(server: Running, text: str = TEXT, response_format: str = "pcm", **fields) -> bytes:
    answer = server.speak(text, response_format=response_format, **{**SAY, **fields})
    assert answer.status_code == 200, answer.text
    return answer.content


MODES = {
    "zero-shot": CLONE,
    "cross-lingual": {"ref_audio": URL},
    "instructed": {**CLONE, "instructions": "Good morning."},
    "preset": {"voice": "ada"},
    "stored": {"voice": "bob"},
    "vector": {"speaker_embedding": EMBEDDED[::-1]},
    "given": {"ref_audio": URL, "reference_tokens": [1, 2, 3, 4], "speaker_embedding": EMBEDDED},
}


def test_every_mode_streamed_is_the_mode_whole_and_sounds_like_no_other(server: Running) -> None:
    found = {}
    for mode, fields in MODES.items():
        streamed, whole = (say(server, stream=stream, **fields) for stream in (True, False))
        assert streamed == whole, mode
        assert len(whole) % (2 * HOP) == 0
        found[mode] = whole
    assert len(set(found.values())) == len(MODES)
    assert say(server, speaker_embedding=EMBEDDED) == found["preset"]
    assert say(server, cross_lingual=True, **CLONE) == found["cross-lingual"]
    assert say(server) == found["preset"]  # the first speaker is the usual voice


@pytest.mark.parametrize("response_format", FORMATS)
def test_every_format(server: Running, response_format: str) -> None:
    clip = heard(say(server, TEXT, response_format, voice="bob"), response_format, 24_000)
    assert clip.samples.shape[1] > 1000
    assert abs(clip.samples).max() > 0.01


def test_an_uploaded_voice_speaks(server: Running) -> None:
    form = {"name": "Cleo", "consent": "the speaker agrees", "text": CLONE["ref_text"]}
    stored = server.http.post("/v1/audio/voices", data=form, files={"audio_sample": ("a.wav", WAV, "audio/wav")})
    assert stored.status_code == 201, stored.text
    assert say(server, voice="Cleo") == say(server, **CLONE)
    vector = server.http.get("/v1/audio/voices/Cleo/embedding").json()["embedding"]
    assert len(vector) == EMBEDDING
    assert server.http.delete("/v1/audio/voices/Cleo").status_code == 200


def test_text_sent_over_a_socket_is_spoken_in_turns(server: Running) -> None:
    whole = say(server, voice="bob", interleave=True)
    assert server.converse(TEXT, 4, voice="bob", **SAY) == whole


@pytest.mark.slow
def test_the_command_clones_here_and_from_a_server(server: Running, checkpoint: Path, tmp_path) -> None:
    (tmp_path / "a.wav").write_bytes(WAV)
    usual = ["say", TEXT, "--no-play", "--seed", "1", "--reference", "a.wav", "--reference-text", "the ref", "-o"]
    done = rhapsode(*usual, "remote.wav", "--server", server.url, cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    remote = heard((tmp_path / "remote.wav").read_bytes(), "wav")
    assert remote.samples.shape[1] == len(say(server, max_new_tokens=1000, **CLONE)) // 2
    local = rhapsode(*usual, "local.wav", "-m", str(checkpoint), cwd=tmp_path)
    assert local.returncode == 0, local.stderr.decode()
    assert heard((tmp_path / "local.wav").read_bytes(), "wav").sample_rate == 24_000


@pytest.mark.slow
def test_the_example_clones_a_voice(checkpoint: Path, tmp_path) -> None:
    (tmp_path / "a.wav").write_bytes(WAV)
    told = run("cosyvoice3_clone.py", str(checkpoint), "a.wav", "the ref", cwd=tmp_path)
    for name in ("clone.wav", "cross_lingual.wav", "instructed.wav"):
        assert name in told
        assert heard((tmp_path / name).read_bytes(), "wav").duration_s > 0.05
    assert "s of audio" in told


def test_what_it_can_do_is_told(server: Running) -> None:
    model = server.http.get("/v1/models").json()["data"][0]
    assert {"cross_lingual", "reference_tokens", "interleave", "enforce_min_length"} <= set(model["options"])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ref_audio": URL, "ref_text": " "}, "transcript"),
        ({"ref_audio": "data:audio/wav;base64,AAAA"}, "ref_audio"),
        ({"ref_audio": URL, "reference_tokens": [CODES]}, "reference tokens are from 0"),
        ({"ref_audio": URL, "reference_tokens": [[1]]}, "reference_tokens"),
        ({"reference_tokens": [1]}, "need the recording"),
        ({"speaker_embedding": [0.1] * 5}, f"{EMBEDDING} finite numbers"),
        ({"references": [CLONE | {"audio": URL, "text": "x"}] * 2}, "references"),
        ({"prompt_audio": URL, "prompt_text": "x"}, "continue recordings"),
        ({"voice": "nobody"}, "nobody"),
        ({"language": "klingon"}, "klingon"),
        ({"input": "<|endofprompt|>", "cross_linguall": True}, "cross_lingual"),
    ],
)
def test_what_cannot_be_served_is_400(server: Running, fields: dict, words: str) -> None:
    answer = server.http.post("/v1/audio/speech", json={"input": "Hello.", **fields})
    assert answer.status_code == 400
    assert words in answer.text


def test_without_its_encoders_a_checkpoint_says_what_to_give(checkpoint: Path, tmp_path: Path) -> None:
    bare = shutil.copytree(checkpoint, tmp_path / "bare")
    for name in (SPEAKER, SPEECH_TOKENIZER):
        (bare / name).unlink()
    with in_thread(str(bare), tmp_path, limits={"max_concurrency": 1, "max_positions": 512}, graphs=False) as server:
        answer = server.speak("Hello.", **CLONE)
        assert answer.status_code == 400
        assert "reference_tokens" in answer.text
        assert say(server, "Hello.", reference_tokens=[1, 2, 3], speaker_embedding=EMBEDDED, **CLONE)
