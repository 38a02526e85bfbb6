from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from typer.models import OptionInfo

from rhapsode.audio.formats import FORMATS, format_of
from rhapsode.cli.say_options import Output
from rhapsode.errors import InvalidRequest, OutputError
from rhapsode.serve.request.schemas import FormatName


def test_there_are_the_six_formats_of_the_openai_api_and_those_of_telephony() -> None:
    telephony = ["mulaw", "alaw", "wav_mulaw", "wav_alaw", "l16", "opus_packets"]
    assert list(FORMATS) == ["mp3", "opus", "aac", "flac", "wav", "pcm", *telephony]


def test_a_request_may_name_every_format() -> None:
    assert get_args(FormatName) == tuple(FORMATS)


def test_a_media_type_has_the_rate_where_nothing_else_says_it() -> None:
    assert FORMATS["l16"].content_type(16_000, 2) == "audio/L16;rate=16000;channels=2"
    assert FORMATS["wav"].content_type(16_000, 2) == "audio/wav"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mp3", "mp3"),
        ("WAV", "wav"),
        ("speech.FLAC", "flac"),
        (Path("a.b/speech.ogg"), "opus"),
        (Path("x.raw"), "pcm"),
        (Path("call.ulaw"), "mulaw"),
        ("call.al", "alaw"),
    ],
)
def test_a_format_is_found_by_name_or_extension(name: str | Path, expected: str) -> None:
    assert format_of(name).name == expected


def test_the_error_for_an_unknown_name_lists_the_formats() -> None:
    with pytest.raises(InvalidRequest) as caught:
        format_of("midi")
    assert all(name in caught.value.message for name in FORMATS)
    assert caught.value.param == "response_format"


@pytest.mark.parametrize("path", [Path("speech.midi"), Path("speech"), Path("mp3"), "speech.txt", "speech."])
def test_the_error_for_a_path_without_a_known_extension_lists_the_formats(path: Path | str) -> None:
    with pytest.raises((OutputError, InvalidRequest)) as caught:
        format_of(path)
    assert all(f.extensions[0].lstrip(".") in caught.value.message for f in FORMATS.values() if f.extensions)


def test_the_formats_that_a_file_may_have_name_books() -> None:
    with pytest.raises(OutputError, match=r"or a book in \.m4b"):
        format_of(Path("speech.midi"))
    (option,) = (about for about in get_args(Output) if isinstance(about, OptionInfo))
    assert set(re.findall(r"\w+", option.help or "")) >= {"m4b", "mp3", "wav", "flac", "opus", "aac"}


def test_a_rate_the_codec_does_not_take_becomes_the_next_one_up() -> None:
    assert format_of("opus").rate_for(24_000) == 24_000
    assert format_of("opus").rate_for(22_050) == 24_000
    assert format_of("opus").rate_for(44_100) == 48_000
    assert format_of("mp3").rate_for(96_000) == 48_000
    assert format_of("wav").rate_for(11_111) == 11_111
    assert format_of("mulaw").rate_for(48_000) == 8_000


def test_the_table_of_formats_needs_no_codec_library() -> None:
    code = "import sys, rhapsode.audio.formats; print({'av', 'soxr', 'torch'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"
