from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rhapsode.audio.formats import FORMATS, format_of
from rhapsode.errors import InvalidRequest, OutputError


def test_there_are_exactly_the_six_formats_of_the_openai_api() -> None:
    assert set(FORMATS) == {"mp3", "opus", "aac", "flac", "wav", "pcm"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mp3", "mp3"),
        ("WAV", "wav"),
        ("speech.FLAC", "flac"),
        (Path("a.b/speech.ogg"), "opus"),
        (Path("x.raw"), "pcm"),
    ],
)
def test_a_format_is_found_by_name_or_extension(name: str | Path, expected: str) -> None:
    assert format_of(name).name == expected


def test_the_error_for_an_unknown_name_lists_the_six_formats() -> None:
    with pytest.raises(InvalidRequest) as caught:
        format_of("midi")
    assert all(name in caught.value.message for name in FORMATS)
    assert caught.value.param == "response_format"


@pytest.mark.parametrize("path", [Path("speech.midi"), Path("speech"), Path("mp3"), "speech.txt", "speech."])
def test_the_error_for_a_path_without_a_known_extension_lists_the_six_formats(path: Path | str) -> None:
    with pytest.raises((OutputError, InvalidRequest)) as caught:
        format_of(path)
    assert all(name in caught.value.message for name in FORMATS)


def test_a_rate_the_codec_does_not_take_becomes_the_next_one_up() -> None:
    assert format_of("opus").rate_for(24_000) == 24_000
    assert format_of("opus").rate_for(22_050) == 24_000
    assert format_of("opus").rate_for(44_100) == 48_000
    assert format_of("mp3").rate_for(96_000) == 48_000
    assert format_of("wav").rate_for(11_111) == 11_111


def test_the_table_of_formats_needs_no_codec_library() -> None:
    code = "import sys, rhapsode.audio.formats; print({'av', 'soxr', 'torch'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"
