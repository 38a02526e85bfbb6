"""Stereo and mono from Python and from the command line."""

from pathlib import Path

import numpy as np
import pytest

from rhapsode import TTS, Audio
from rhapsode.cli.player import LivePlayer
from rhapsode.errors import InvalidRequest
from tiny.moss_tts_nano import Tiny, write
from unit.command import rhapsode


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("moss")
    write(made, Tiny())
    return made


def test_speech_is_stereo_unless_mono_is_asked_for(folder: Path, tmp_path: Path) -> None:
    with TTS(str(folder), device="cpu", threads=1, limits={"max_concurrency": 1}) as tts:
        stereo = tts.speak("Hello there.", seed=1)
        mono = tts.speak("Hello there.", seed=1, channels=1)
        assert {chunk.channels for chunk in tts.stream("Hello.", seed=1, channels=1)} == {1}
        with pytest.raises(InvalidRequest, match=r"1 \(mono\) or 2 \(stereo\)"):
            tts.speak("Hello there.", channels=3)
    assert (stereo.channels, mono.channels) == (2, 1)
    np.testing.assert_allclose(stereo.samples.mean(axis=0), mono.samples[0], atol=1e-6)
    assert Audio.open(stereo.save(tmp_path / "a.wav")).channels == 2


@pytest.mark.parametrize(("given", "channels"), [((), 2), (("--channels", "1"), 1)])
def test_the_command_line_says_it_in_as_many_channels(
    folder: Path, tmp_path: Path, given: tuple[str, ...], channels: int
) -> None:
    output = tmp_path / "said.wav"
    done = rhapsode(
        "say", "Hello.", "-m", str(folder), "-o", str(output), "--seed", "1", "--no-play", *given, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert Audio.open(output).channels == channels


def test_a_live_player_gets_interleaved_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    player = tmp_path / "aplay"
    player.write_text(f"#!/bin/sh\ncat > {tmp_path / 'played'}\n")
    player.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    samples = np.array([[0.25, 0.5], [-0.25, -0.5]], np.float32)
    monkeypatch.setattr("shutil.which", lambda name: str(player) if name == "aplay" else None)
    with LivePlayer(48_000, 2) as live:
        live.write(samples)
    assert np.frombuffer((tmp_path / "played").read_bytes(), "<i2").tolist() == [8192, -8192, 16384, -16384]
