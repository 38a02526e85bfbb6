"""`rhapsode say` tells early what is wrong, shows what it does, and ends when it is told to."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rhapsode.audio.clip import Audio
from rhapsode.cli.output import check_output, save
from rhapsode.cli.say import say
from rhapsode.errors import OutputError
from tiny.qwen3_tts import Tiny, write
from unit.command import environment, python, rhapsode

WRONG = {
    "speed": "speed=9.0",
    "voice": 'voice=["nobody"]',
    "language": 'language="de"',
    "option": 'model="hibari", option=["x_vector_only_mode=true"]',
    "temperature": 'option=["temprature=1"]',
    "model": 'model="voxcpm2"',
    "length": 'file=Path("long.txt"), text=None',
    "format": 'format="xyz"',
    "device": 'device="tpu"',
    "no folder": 'output="nowhere/a.wav"',
    "no place for files": 'output="/proc/a.wav"',
    "missing recording": 'voice=["nowhere.wav"]',
    "recording that is no audio": 'voice=["noise.mp3"]',
    "recording for a voice that clones none": 'model="hibari", voice=["tone.wav"]',
}
COMPLAINTS = {
    "voice": "rhapsode-nano has no voice 'nobody': known: emma, fenrir, george, heart, kore, michael",
    "model": "voxcpm2 needs a checkpoint: give its folder, or its Hugging Face id, such as openbmb/VoxCPM2",
    "device": "'device': unknown device 'tpu': use auto, cpu, cuda or cuda:N",
    "no folder": "cannot write nowhere/a.wav: the directory",
    "no place for files": "cannot write /proc/a.wav: the directory /proc is not writable",
    "missing recording": "There is no audio file at 'nowhere.wav'.",
    "recording that is no audio": "noise.mp3: The audio cannot be read",
    "recording for a voice that clones none": "hibari cannot clone voices",
}
TONE = Audio(0.3 * np.sin(np.arange(48_000) * 0.05)[None].astype(np.float32), 24_000)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What `say` says of each wrong call, whether torch was loaded by then, and which files there are: one process."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "long.txt").write_text("word " * 5000)
    (folder / "noise.mp3").write_bytes(bytes(range(256)))
    TONE.save(folder / "tone.wav")
    calls = ", ".join(f"{kind!r}: lambda: dict({wrong})" for kind, wrong in WRONG.items())
    code = f"""
import json, os, sys
from pathlib import Path
from rhapsode.cli.say import say
from rhapsode.errors import RhapsodeError
told = {{}}
for kind, call in {{{calls}}}.items():
    try:
        say(**{{"text": "Hello.", **call()}})
    except RhapsodeError as error:
        told[kind] = [error.message, "torch" in sys.modules, sorted(os.listdir())]
print(json.dumps(told))
"""
    return json.loads(python(code, folder))


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_told_before_anything_is_loaded(told: dict[str, list[Any]], kind: str) -> None:
    message, is_loaded, files = told[kind]
    assert message.startswith(COMPLAINTS.get(kind, ""))
    assert not is_loaded, message
    assert files == ["long.txt", "noise.mp3", "tone.wav"]


@pytest.mark.parametrize("name", ["my.wav", pytest.param("my.mp3", marks=pytest.mark.slow)])
def test_a_recording_in_place_of_a_voice_is_cloned(tmp_path: Path, name: str) -> None:
    write(tmp_path / "base", Tiny(kind="base", eos_gain=3.0))
    TONE.save(tmp_path / name)
    given = {"text": "Hello there.", "model": str(tmp_path / "base"), "seed": 1, "play": False, "quiet": True}
    say(**given, output=str(tmp_path / "a.wav"), voice=[str(tmp_path / name)])
    say(**given, output=str(tmp_path / "b.wav"), reference=[tmp_path / name])
    one, other = (Audio.open(tmp_path / output) for output in ("a.wav", "b.wav"))
    assert one.duration_s > 0
    assert np.allclose(one.samples, other.samples, atol=1e-2)  # both are marked with their own time


def test_a_family_without_a_checkpoint_says_what_it_needs(tmp_path: Path) -> None:
    done = rhapsode("say", "-m", "voxcpm2", "Hello.", cwd=tmp_path)
    assert done.returncode == 1
    assert "openbmb/VoxCPM2" in done.stderr.decode()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused_first(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(OutputError, match="not writable"):
        check_output(str(tmp_path / "a.wav"), None)


def test_a_check_of_the_output_leaves_nothing_behind(tmp_path: Path) -> None:
    check_output(str(tmp_path / "a.wav"), None, tmp_path / "a.srt")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("output", ["/dev/full", "/dev/null"])
def test_a_device_is_no_file_for_audio(output: str) -> None:
    with pytest.raises(OutputError, match="not a regular file"):
        check_output(output, "wav")


def test_audio_that_cannot_be_saved_is_kept_elsewhere(tmp_path: Path) -> None:
    audio = Audio(np.full((1, 2400), 0.1, np.float32), 24_000)
    with pytest.raises(OutputError, match="kept in") as caught:
        save(audio, str(tmp_path / "gone" / "a.wav"), None)
    kept = Path(caught.value.message.rpartition(" ")[2].rstrip("."))
    try:
        assert Audio.open(kept).duration_s == pytest.approx(0.1)
    finally:
        kept.unlink()


def test_quiet_prints_nothing(tmp_path: Path) -> None:
    done = rhapsode("say", "-q", "-m", "dummy", "--device", "cpu", "--no-play", "Hello.", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "speech.wav").is_file()


def on_terminal(tmp_path: Path, *arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    """`rhapsode` with a terminal as its standard error."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "rhapsode", *arguments]
    default = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs,
        preexec_fn=default,
    )  # fmt: skip
    os.close(theirs)
    return process, ours


def read_until(terminal: int, word: bytes) -> bytes:
    seen = b""
    while word not in seen:
        try:
            seen += os.read(terminal, 4096)
        except OSError:  # the process has ended
            break
    return seen


def test_an_interrupt_while_loading_ends_it_at_once(tmp_path: Path) -> None:
    process, terminal = on_terminal(tmp_path, "say", "--no-play", "Hello there.")
    try:
        assert b"loading: " in read_until(terminal, b"loading: ")
        process.send_signal(signal.SIGINT)
        sent_s = time.monotonic()
        told = read_until(terminal, b"interrupted.")
        assert process.wait(30) == 130
        assert time.monotonic() - sent_s < 20  # on a machine with nothing else to do, far below a second
        assert b"rhapsode: interrupted." in told
        assert os.listdir(tmp_path) == []
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


@pytest.mark.slow
def test_a_terminal_shows_loading_and_how_much_of_it_is_spoken(tmp_path: Path) -> None:
    process, terminal = on_terminal(tmp_path, "say", "--no-play", "-m", "dummy", "Hello there. " * 20)
    try:
        told = read_until(terminal, b"real-time factor").decode()
        assert process.wait(30) == 0
        assert "loading: " in told
        assert "s spoken" in told
        assert "of about 17 s" in told
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


# --- dialogues ---

SCRIPT = """
[anna]: Who is there?
[ben]: It is
me.
[pause 1.5]
[anna]: Come in.
"""


def test_a_script_is_spoken_by_its_voices(tmp_path: Path) -> None:
    (tmp_path / "talk.txt").write_text(SCRIPT)
    voices = ("--voice", "anna=low", "--voice", "ben=high")
    done = rhapsode("say", "-m", "dummy", "--script", "talk.txt", *voices, "--no-play", "-o", "t.wav", cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    letters = len("Who is there?") + len("It is me.") + len("Come in.")
    assert Audio.open(tmp_path / "t.wav").duration_s == pytest.approx(letters * 0.08 + 0.3 + 1.5, abs=0.001)


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        ("Hello.", (), "line 1 of the script has no speaker"),
        ("", (), "the script is empty"),
        ("[anna]: Hi.", ("--voice", "ben=low"), "nobody in talk.txt is called 'ben'; there are: anna"),
        ("[anna]: Hi.", ("--voice", "anna=nobody"), "segments.0: dummy has no voice 'nobody'"),
        ("[anna]: Hi.", ("Hello.",), "not several of them"),
    ],
)
def test_what_is_wrong_with_a_script_is_told(tmp_path: Path, script: str, arguments: tuple, message: str) -> None:
    (tmp_path / "talk.txt").write_text(script)
    done = rhapsode("say", "-m", "dummy", "--script", "talk.txt", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.decode()
