from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from rhapsode.audio import clip as clip_module
from rhapsode.audio.clip import Audio
from rhapsode.errors import BadAudio, GenerationFailed, OutputError
from rhapsode.types import Clip


@pytest.fixture
def audio(tone) -> Audio:
    return Audio(tone(440, 0.5, channels=2), 24_000)


MAGIC = {"wav": b"RIFF", "mp3": b"ID3", "flac": b"fLaC", "opus": b"OggS", "aac": b"\xff\xf1", "ogg": b"OggS"}


@pytest.mark.parametrize("extension", sorted(MAGIC))
def test_the_extension_chooses_the_format_and_the_file_opens_again(tmp_path, audio, extension):
    path = audio.save(tmp_path / f"speech.{extension}")
    assert path == tmp_path / f"speech.{extension}"
    assert path.read_bytes().startswith(MAGIC[extension])
    again = Audio.open(path)
    assert again.channels == 2
    assert again.duration_s == pytest.approx(0.5, abs=0.09)
    assert os.listdir(tmp_path) == [path.name]


def test_pcm_is_the_bare_samples(tmp_path, audio):
    path = audio.save(str(tmp_path / "speech.pcm"))
    assert path.stat().st_size == 12_000 * 2 * 2


def test_a_saved_wave_opens_as_the_same_audio(tmp_path, noise):
    first = Audio.open(Audio(noise(5_000), 22_050).save(tmp_path / "a.wav"))
    second = Audio.open(first.save(tmp_path / "b.flac"))
    assert first == second
    assert first != Audio(first.samples, 24_000)
    assert Audio.open(tmp_path / "a.wav", sample_rate=44_100).samples.shape == (1, 10_000)


def test_an_explicit_format_wins_over_the_extension(tmp_path, audio):
    assert audio.save(tmp_path / "speech.wav", format="flac").read_bytes().startswith(b"fLaC")
    assert audio.save(tmp_path / "speech", format="mp3").read_bytes().startswith(b"ID3")


@pytest.mark.parametrize("name", ["speech.midi", "speech"])
def test_the_error_for_an_unknown_extension_lists_the_formats(tmp_path, audio, name):
    with pytest.raises(OutputError, match=r"\.mp3, \.opus, \.aac, \.flac, \.wav, \.pcm"):
        audio.save(tmp_path / name)
    with pytest.raises(OutputError, match="mp3, opus, aac, flac, wav, pcm, mulaw"):
        audio.save(tmp_path / "speech.wav", format="midi")
    assert os.listdir(tmp_path) == []


def test_a_missing_directory_a_directory_and_a_device_are_refused(tmp_path, audio):
    with pytest.raises(OutputError, match="does not exist"):
        audio.save(tmp_path / "nowhere" / "speech.wav")
    (tmp_path / "folder.wav").mkdir()
    with pytest.raises(OutputError, match="is a directory"):
        audio.save(tmp_path / "folder.wav")
    os.mkfifo(tmp_path / "pipe.wav")
    with pytest.raises(OutputError, match="not a regular file"):
        audio.save(tmp_path / "pipe.wav")
    assert stat.S_ISFIFO((tmp_path / "pipe.wav").stat().st_mode)
    assert sorted(os.listdir(tmp_path)) == ["folder.wav", "pipe.wav"]


def test_a_failure_while_encoding_leaves_the_old_file_and_nothing_else(tmp_path, audio, monkeypatch):
    path = tmp_path / "speech.wav"
    path.write_bytes(b"old")

    def fail(*_: object) -> bytes:
        raise GenerationFailed("no")

    monkeypatch.setattr(clip_module, "encode", fail)
    with pytest.raises(GenerationFailed):
        audio.save(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["speech.wav"]


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_while_writing_leaves_the_old_file_and_nothing_else(tmp_path, audio, monkeypatch, failure):
    path = tmp_path / "speech.wav"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        assert len(os.listdir(tmp_path)) == 2
        raise failure

    monkeypatch.setattr(os, "replace", fail)
    expected = OutputError if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        audio.save(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["speech.wav"]


def test_saving_through_a_link_keeps_the_link(tmp_path, audio):
    (tmp_path / "link.wav").symlink_to(tmp_path / "real.wav")
    audio.save(tmp_path / "link.wav")
    assert (tmp_path / "link.wav").is_symlink()
    assert (tmp_path / "real.wav").read_bytes().startswith(b"RIFF")


def test_a_saved_file_has_the_permissions_of_any_other_new_file(tmp_path, audio):
    Path(tmp_path / "other").touch()
    saved = audio.save(tmp_path / "speech.wav")
    assert saved.stat().st_mode == (tmp_path / "other").stat().st_mode


def test_samples_that_are_not_numbers_are_never_saved(tmp_path):
    with pytest.raises(GenerationFailed):
        Audio(np.full((1, 10), np.nan, np.float32), 24_000).save(tmp_path / "speech.wav")
    assert os.listdir(tmp_path) == []


def test_opening_what_is_not_audio_is_bad_audio(tmp_path):
    (tmp_path / "x.wav").write_bytes(b"no audio")
    with pytest.raises(BadAudio):
        Audio.open(tmp_path / "x.wav")


def test_audio_is_a_clip_with_a_short_repr_and_a_player(audio):
    assert isinstance(audio, Clip)
    assert repr(audio) == "Audio(0.50 s, 24000 Hz, stereo)"
    assert audio._repr_html_().startswith('<audio controls src="data:audio/wav;base64,UklGR')
