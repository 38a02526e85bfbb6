"""The examples do what they say, against a running server."""

import json
import py_compile
import subprocess
import sys
import wave
from pathlib import Path

import pytest

from e2e.serve.running import LETTER_S, Running, heard, in_thread
from rhapsode.audio.encode import encode
from rhapsode.config import resolve
from rhapsode.types import Clip
from tiny import chatterbox, kokoro, voxtral_tts
from tiny.qwen3_tts import HIDDEN, Tiny, reference_audio, write
from unit.command import environment

EXAMPLES = Path(__file__).parents[3] / "examples"


def run(example: str, *arguments: str, cwd: Path) -> str:
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_openai_s_client(dummy: Running, tmp_path: Path) -> None:
    assert "at 24000 Hz" in run("openai_client.py", dummy.url, cwd=tmp_path)
    assert heard((tmp_path / "hello.mp3").read_bytes(), "mp3").duration_s > 0.2


def test_elevenlabs_client(dummy: Running, tmp_path: Path) -> None:
    pytest.importorskip("elevenlabs", reason="the client is not installed: pip install elevenlabs")
    told = run("elevenlabs_client.py", dummy.url, cwd=tmp_path)
    assert "voices: low" in told
    assert "s of audio" in told
    assert heard((tmp_path / "hello.mp3").read_bytes(), "mp3").duration_s > 0.2


def test_a_language_model_s_words_are_spoken_as_they_come(dummy: Running, tmp_path: Path) -> None:
    told = run("socket_client.py", dummy.socket_url.removesuffix("/v1/audio/speech/stream"), cwd=tmp_path)
    assert "session.done" in told
    with wave.open(str(tmp_path / "socket.wav")) as file:
        assert file.getnframes() / file.getframerate() == pytest.approx(93 * LETTER_S, abs=0.03)


def test_voices_between_two_others(tmp_path: Path) -> None:
    checkpoint = tmp_path / "tiny"
    checkpoint.mkdir()
    write(checkpoint, Tiny(kind="base", eos_gain=1.4))
    for name, step in (("a", 3), ("b", 5)):
        (tmp_path / f"{name}.json").write_text(json.dumps([((i * step) % 7 - 3) / 50 for i in range(HIDDEN)]))
    with in_thread(str(checkpoint), tmp_path, limits={"max_concurrency": 2, "max_positions": 512}) as server:
        told = run("blend_voices.py", "a.json", "b.json", server.url, cwd=tmp_path)
    assert json.loads(told)["embedding_size"] == HIDDEN
    for step in range(5):
        assert heard((tmp_path / f"blend-{step}.mp3").read_bytes(), "mp3").duration_s > 0.05


@pytest.mark.slow
def test_a_document_with_pauses(tmp_path: Path) -> None:
    assert "ssml.wav" in run("ssml.py", "dummy", cwd=tmp_path)
    with wave.open(str(tmp_path / "ssml.wav")) as file:
        assert file.getnframes() / file.getframerate() > 0.7


@pytest.mark.slow
def test_preset_voices_of_voxtral(tmp_path: Path) -> None:
    voxtral_tts.write(tmp_path / "tiny", voxtral_tts.Tiny(patch=60, end_gain=1.8, seed=7))
    told = run("voxtral_voices.py", str(tmp_path / "tiny"), "cheerful_female", "fr_male", cwd=tmp_path)
    assert told.count("24000 Hz") == 2
    assert heard((tmp_path / "fr_male.wav").read_bytes(), "wav").duration_s > 0.05


def test_a_voice_cloned_by_chatterbox(tmp_path: Path) -> None:
    chatterbox.write(tmp_path / "tiny", chatterbox.ENDING["original"])
    (tmp_path / "me.wav").write_bytes(encode(Clip(reference_audio(20_000)[None], 24_000), "wav"))
    told = run("chatterbox_clone.py", str(tmp_path / "tiny"), "me.wav", cwd=tmp_path)
    assert told.count("24000 Hz") == 2
    assert heard((tmp_path / "excited.wav").read_bytes(), "wav").duration_s > 0.05


@pytest.mark.parametrize("example", ["livekit_agent.py", "pipecat_bot.py"])
def test_examples_that_need_more_than_we_have_are_at_least_python(example: str, tmp_path: Path) -> None:
    assert py_compile.compile(str(EXAMPLES / example), str(tmp_path / "compiled"), doraise=True)


@pytest.mark.slow
def test_voices_of_kokoro(tmp_path: Path) -> None:
    kokoro.write(tmp_path / "tiny")
    told = run("kokoro_voices.py", str(tmp_path / "tiny"), "bf_emma", "af_heart,am_adam", cwd=tmp_path)
    assert "bf_emma.wav" in told
    assert (tmp_path / "af_heart,am_adam.wav").is_file()


@pytest.mark.parametrize("file", sorted(path.name for path in (EXAMPLES / "configs").glob("*.yaml")))
def test_every_example_deployment_is_understood(file: str) -> None:
    assert resolve(EXAMPLES / "configs" / file, {}).model
