"""`rhapsode` as a user types it: what is written, what is said, and what bad input gets."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest

from tiny import moss_tts_nano, qwen3_tts
from unit.command import environment, rhapsode

TEXT = "The quick brown fox jumps over the lazy dog."
QUICK = {"RHAPSODE_MODEL": "hibari"}  # the command is tested here, and this voice is the quickest
DUMMY_RATE, DUMMY_LETTER_S = 16_000, 0.08  # the dummy speaks one frame of 80 ms a letter


def say(*arguments: str, cwd: Path, stdin: bytes = b"", **extra: str) -> subprocess.CompletedProcess[bytes]:
    return rhapsode("say", "--no-play", *arguments, cwd=cwd, stdin=stdin, timeout_s=15, **(QUICK | extra))


def heard(source: Path | bytes) -> tuple[np.ndarray, int]:
    """What a player would play of this file, and its rate."""
    with av.open(io.BytesIO(source) if isinstance(source, bytes) else str(source)) as container:
        frames = [frame.to_ndarray() for frame in container.decode(audio=0)]
        rate = container.streams.audio[0].rate
        planar = container.streams.audio[0].format.is_planar
    return np.concatenate([f[:1] if planar else f.reshape(1, -1) for f in frames], axis=1)[0], rate


def duration_s(source: Path | bytes) -> float:
    samples, rate = heard(source)
    return len(samples) / rate


def printed_duration_s(done: subprocess.CompletedProcess[bytes]) -> float:
    found = re.search(r": (\d+\.\d+) s of speech", done.stderr.decode())
    assert found, done.stderr.decode()
    return float(found[1])


def succeeded(done: subprocess.CompletedProcess[bytes]) -> None:
    assert done.returncode == 0, done.stderr.decode()


# --- what is said ---


def test_say_writes_speech_wav_here_and_says_so(tmp_path: Path) -> None:
    done = say(TEXT, cwd=tmp_path)
    succeeded(done)
    assert os.listdir(tmp_path) == ["speech.wav"]
    assert re.fullmatch(
        r"speech\.wav: \d+\.\d\d s of speech; first audio after \d+ ms, real-time factor \d+\.\d+ .*\n",
        done.stderr.decode(),
    )
    samples, rate = heard(tmp_path / "speech.wav")
    assert rate == 24_000
    assert 1.5 < len(samples) / rate < 6
    assert abs(len(samples) / rate - printed_duration_s(done)) < 0.01
    assert 0.05 < np.abs(samples.astype(np.float64)).max() / 32768 < 1.0
    assert done.stdout == b""


@pytest.mark.parametrize(
    "extension", ["mp3", "opus", *(pytest.param(e, marks=pytest.mark.slow) for e in ("flac", "aac"))]
)
def test_every_format_is_whole(tmp_path: Path, extension: str) -> None:
    file = tmp_path / f"fox.{extension}"
    done = say(TEXT, "-o", file.name, cwd=tmp_path)
    succeeded(done)
    assert os.listdir(tmp_path) == [file.name]
    longest_padding_s = 0.0 if extension == "flac" else 0.1
    assert -0.01 < duration_s(file) - printed_duration_s(done) < longest_padding_s + 0.01


@pytest.mark.slow
def test_pcm_is_bare_samples(tmp_path: Path) -> None:
    done = say(TEXT, "-o", "fox.pcm", cwd=tmp_path)
    succeeded(done)
    assert abs((tmp_path / "fox.pcm").stat().st_size / 2 / 24_000 - printed_duration_s(done)) < 0.01


@pytest.mark.slow
def test_the_format_may_be_said_apart_from_the_name(tmp_path: Path) -> None:
    succeeded(say(TEXT, "-o", "fox", "--format", "flac", cwd=tmp_path))
    assert (tmp_path / "fox").read_bytes()[:4] == b"fLaC"


@pytest.mark.slow
def test_text_comes_from_an_argument_a_file_or_standard_input(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("Déjà vu, café.", "utf-8")
    common = ("--seed", "1")
    succeeded(say("Déjà vu, café.", *common, "-o", "argument.wav", cwd=tmp_path))
    succeeded(say("--file", "text.txt", *common, "-o", "file.wav", cwd=tmp_path))
    succeeded(say(*common, "-o", "stdin.wav", cwd=tmp_path, stdin="Déjà vu, café.".encode()))
    files = [(tmp_path / f"{name}.wav").read_bytes() for name in ("argument", "file", "stdin")]
    assert files[0] == files[1] == files[2]
    assert duration_s(files[0]) > 0.5


def test_text_that_begins_with_a_dash_is_said_after_two(tmp_path: Path) -> None:
    succeeded(say("-o", "dash.wav", "--", "--seed is an option", cwd=tmp_path))
    assert (tmp_path / "dash.wav").exists()


@pytest.mark.parametrize(("format", "magic"), [(None, b"RIFF"), ("opus", b"OggS")])
def test_audio_can_be_piped(tmp_path: Path, format: str | None, magic: bytes) -> None:
    done = say(TEXT, "-o", "-", *(("--format", format) if format else ()), cwd=tmp_path)
    succeeded(done)
    assert done.stdout.startswith(magic)
    assert abs(duration_s(done.stdout) - printed_duration_s(done)) < 0.11
    assert "standard output" in done.stderr.decode()
    assert os.listdir(tmp_path) == []


def test_a_reader_that_leaves_early_causes_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rhapsode", "say", "-o", "-", f"{TEXT} " * 100]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(**QUICK), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(4) == b"RIFF"
        process.stdout.close()
        complaint = process.stderr.read().decode()
        assert process.wait(30) != 0
    assert "Traceback" not in complaint
    assert "Exception ignored" not in complaint


@pytest.mark.slow
def test_the_same_seed_says_it_the_same_way_again(tmp_path: Path) -> None:
    for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        succeeded(say(TEXT, "--seed", seed, "-o", f"{name}.wav", cwd=tmp_path))
    a, b, c = ((tmp_path / f"{name}.wav").read_bytes() for name in "abc")
    assert a == b
    assert a != c


@pytest.mark.slow
def test_speed_changes_the_duration(tmp_path: Path) -> None:
    usual = say(TEXT, "--seed", "1", "-o", "usual.wav", cwd=tmp_path)
    fast = say(TEXT, "--seed", "1", "--speed", "2", "-o", "fast.wav", cwd=tmp_path)
    succeeded(fast)
    assert duration_s(tmp_path / "fast.wav") == pytest.approx(duration_s(tmp_path / "usual.wav") / 2, abs=0.05)
    assert printed_duration_s(fast) == pytest.approx(printed_duration_s(usual) / 2, abs=0.05)


@pytest.mark.slow
def test_an_older_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "speech.wav").write_bytes(b"old")
    succeeded(say(TEXT, cwd=tmp_path))
    assert duration_s(tmp_path / "speech.wav") > 1


def test_a_deployment_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "deploy.yaml").write_text("model: dummy\nlimits: {max_text_chars: 5}\n")
    done = rhapsode("say", "--no-play", "abcde", "--config", "deploy.yaml", cwd=tmp_path)
    succeeded(done)
    samples, rate = heard(tmp_path / "speech.wav")
    assert (rate, len(samples)) == (DUMMY_RATE, 5 * DUMMY_LETTER_S * DUMMY_RATE)


# --- players ---


@pytest.fixture
def player(tmp_path: Path):
    """A program called ffplay that notes how it was called and what it was fed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "ffplay"
    log = tmp_path / "played"
    script.write_text(f'#!/bin/sh\necho "$@" > "{log}"\n[ -t 0 ] || cat >> "{log}"\n')
    script.chmod(0o755)
    return log, f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_the_result_is_played_where_a_player_exists(tmp_path: Path, player) -> None:
    log, path = player
    done = rhapsode("say", TEXT, cwd=tmp_path, PATH=path, **QUICK)
    succeeded(done)
    assert log.read_text().split()[-1].endswith("speech.wav")


@pytest.mark.slow
def test_nothing_is_played_where_that_was_asked_for(tmp_path: Path, player) -> None:
    log, path = player
    succeeded(rhapsode("say", TEXT, "--no-play", cwd=tmp_path, PATH=path, **QUICK))
    assert not log.exists()


def test_a_stream_is_played_while_it_is_spoken_and_then_saved(tmp_path: Path, player) -> None:
    log, path = player
    done = rhapsode("say", TEXT, "--stream", cwd=tmp_path, PATH=path, **QUICK)
    succeeded(done)
    played = log.read_bytes().partition(b"\n")[2]
    samples, _ = heard(tmp_path / "speech.wav")
    assert np.array_equal(np.frombuffer(played, np.int16), samples)


# --- what bad input gets ---

LONG_NAME = "x" * 300 + ".wav"
BAD = {
    "empty text": ([""], "empty"),
    "emoji": (["🎉"], "no letter and no digit"),
    "nothing on standard input": ([], "empty"),
    "over-long text": (["word " * 5000], "20000"),
    "unknown model": (["Hi.", "-m", "hibarri"], "did you mean 'hibari'?"),
    "folder that is no checkpoint": (["Hi.", "-m", "folder"], "config.json"),
    "unknown voice": (["Hi.", "-v", "hart"], "did you mean 'heart'?"),
    "missing text file": (["-f", "nowhere.txt"], "nowhere.txt"),
    "text file that is no text": (["-f", "noise.txt"], "UTF-8"),
    "text and file": (["Hi.", "-f", "text.txt"], "not both"),
    "output in a missing folder": (["Hi.", "-o", "nowhere/a.wav"], "nowhere"),
    "output that is a folder": (["Hi.", "-o", "folder.wav"], "director"),
    "output of unknown format": (["Hi.", "-o", "a.xyz"], "mp3"),
    "output with too long a name": (["Hi.", "-o", LONG_NAME], "name too long"),
    "unknown format": (["Hi.", "-o", "a.wav", "--format", "xyz"], "mp3"),
    "unknown flag": (["Hi.", "--sped", "2"], "--speed"),
    "flag of another type": (["Hi.", "--speed", "fast"], "--speed"),
    "two texts": (["Hello", "there"], "there"),
    "speed out of range": (["Hi.", "--speed", "9"], "0.25"),
    "option without a value": (["Hi.", "--option", "pause_s"], "name=value"),
    "unknown option": (["Hi.", "--option", "pase_s=1"], "did you mean 'pause_s'?"),
    "option of another type": (["Hi.", "--option", "pause_s=long"], "pause_s"),
    "option that is a strange date": (["Hi.", "--option", "pause_s=2024-13-45"], "pause_s"),
    "option that is no number": (["Hi.", "--option", "pause_s=.nan"], "pause_s"),
    "option below zero": (["Hi.", "--option", "pause_s=-1"], "pause_s"),
    "option that is the text": (["Hi.", "--option", "text=Ho."], "text"),
    "option that leaves the text open": (["Hi.", "--option", "text_open=true"], "text_open"),
    "another language": (["Hi.", "--language", "fr"], "English"),
    "missing deployment file": (["Hi.", "-c", "nowhere.yaml"], "nowhere.yaml"),
    "broken deployment file": (["Hi.", "-c", "broken.yaml"], "line 2"),
    "unknown key in a deployment file": (["Hi.", "-c", "unknown.yaml"], "did you mean 'device'?"),
    "unknown stage in a deployment file": (["Hi.", "-c", "stage.yaml"], "did you mean 'speak'?"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_gets_one_sentence_and_leaves_nothing_behind(tmp_path: Path, kind: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.wav").mkdir()
    (tmp_path / "noise.txt").write_bytes(bytes(range(128, 256)))
    (tmp_path / "text.txt").write_text("Hello.")
    (tmp_path / "broken.yaml").write_text("model: hibari\n  device: cpu\n")
    (tmp_path / "unknown.yaml").write_text("devise: cpu\n")
    (tmp_path / "stage.yaml").write_text("stages: {speek: {}}\n")
    before = sorted(tmp_path.rglob("*"))
    arguments, hint = BAD[kind]
    done = say(*arguments, cwd=tmp_path)
    complaint = done.stderr.decode()
    assert done.returncode not in (0, None)
    assert "Traceback" not in complaint
    assert len(complaint.strip().splitlines()) == 1, complaint
    assert complaint.startswith("rhapsode: ")
    assert hint.lower() in complaint.lower()
    assert done.stdout == b""
    assert sorted(tmp_path.rglob("*")) == before


def test_bad_input_leaves_the_older_file_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "speech.wav").write_bytes(b"old")
    assert say("", cwd=tmp_path).returncode != 0
    assert (tmp_path / "speech.wav").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["speech.wav"]


def test_an_unknown_command_is_answered_with_the_nearest_known_one(tmp_path: Path) -> None:
    done = rhapsode("sya", "Hi.", cwd=tmp_path)
    complaint = done.stderr.decode()
    assert done.returncode != 0
    assert "'say'" in complaint
    assert len(complaint.strip().splitlines()) == 1, complaint


def test_a_bad_variable_in_the_environment_gets_one_sentence(tmp_path: Path) -> None:
    done = say("Hi.", cwd=tmp_path, RHAPSODE_MODEL="[")
    complaint = done.stderr.decode()
    assert done.returncode != 0
    assert len(complaint.strip().splitlines()) == 1, complaint
    assert "RHAPSODE_MODEL" in complaint


def test_a_runaway_is_reported_and_not_saved(tmp_path: Path) -> None:
    done = say("Hello.", "--quiet", "-m", "dummy", "--option", "endless=true", cwd=tmp_path)
    complaint = done.stderr.decode()
    assert done.returncode != 0
    assert len(complaint.strip().splitlines()) == 1, complaint
    assert os.listdir(tmp_path) == []


def test_an_interrupt_leaves_no_file_and_no_traceback(tmp_path: Path) -> None:
    folder, begun = tmp_path / "bin", tmp_path / "begun"
    work = tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    os.mkfifo(begun)
    (folder / "ffplay").write_text(f'#!/bin/sh\nhead -c 1 > "{begun}"\nexec cat > /dev/null\n')
    (folder / "ffplay").chmod(0o755)
    env = environment(**QUICK, PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")
    command = [sys.executable, "-m", "rhapsode", "say", "--stream", f"{TEXT} " * 400]
    with subprocess.Popen(
        command,
        cwd=work,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background would ignore it
    ) as process:
        begun.read_bytes()  # the first audio has been heard
        assert process.poll() is None
        while process.poll() is None:  # Python drops an interrupt that lands in a destructor: people press again
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=2)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in stderr.decode()
    assert len(stderr.decode().strip().splitlines()) <= 1
    assert os.listdir(work) == []


# --- the other commands ---


def test_models_lists_what_is_offered_for_people_and_programs(tmp_path: Path) -> None:
    shown = rhapsode("models", cwd=tmp_path)
    succeeded(shown)
    assert "hibari" in shown.stdout.decode()
    voices = "heart, michael, emma, kore, fenrir, george"
    packaged = f"rhapsode-nano is a checkpoint that comes with this package (voices: {voices}; languages: en)"
    assert packaged in " ".join(shown.stdout.decode().split())
    assert "dummy" not in shown.stdout.decode()
    rows = json.loads(rhapsode("models", "--json", "--all", cwd=tmp_path).stdout)
    by_name = {row["name"]: row for row in rows}
    assert {"dummy", "hibari"} <= set(by_name)
    assert by_name["hibari"]["sample_rate"] == 24_000
    assert "heart" in by_name["hibari"]["voices"]
    assert by_name["hibari"]["options"] == {"pause_s": 0.25}
    assert by_name["dummy"]["stages"] == ["prepare", "encode", "talk", "vocode"]
    assert [row["name"] for row in json.loads(rhapsode("models", "--json", cwd=tmp_path).stdout)].count("dummy") == 0


def test_models_shows_the_whole_path_of_a_checkpoint_and_its_options(tmp_path: Path) -> None:
    folder = tmp_path / "/".join(["a folder whose path is longer than a line of any terminal"] * 3)
    moss_tts_nano.write(folder)
    shown = rhapsode("models", str(folder), cwd=tmp_path, COLUMNS="40")
    succeeded(shown)
    lines = [line.strip() for line in shown.stdout.decode().splitlines()]
    assert f"model  {folder}" in lines
    assert "cloning = none  (reference or continuation)" in lines
    assert "nq = none  (whole number, 1 or more)" in lines
    assert "text_temperature = 1.0  (number, 0 to 10)" in lines
    assert "text_top_p = 1.0  (number, above 0, at most 1)" in lines
    for name in ("cloning", "max_text_tokens", "nq", "text_temperature", "text_top_k", "text_top_p"):
        (at,) = (i for i, line in enumerate(lines) if line.startswith(f"{name} = "))
        assert lines[at + 1].endswith(".")


def test_models_shows_only_options_that_have_an_effect(tmp_path: Path) -> None:
    qwen3_tts.write(tmp_path / "base", qwen3_tts.Tiny(kind="base"))
    qwen3_tts.write(tmp_path / "design", qwen3_tts.Tiny(kind="voice_design"))
    base, design = (rhapsode("models", name, cwd=tmp_path).stdout.decode() for name in ("./base", "./design"))
    assert "x_vector_only_mode" in base
    assert "x_vector_only_mode" not in design
    assert "subtalker_top_k" in design


def test_doctor_finds_nothing_broken_here(tmp_path: Path) -> None:
    done = rhapsode("doctor", cwd=tmp_path)
    report = done.stdout.decode()
    assert done.returncode == 0, report
    assert "BROKEN" not in report
    for subject in ("python", "torch", "av", "model rhapsode-nano", "model dummy", "model hibari", "player"):
        assert subject in report
