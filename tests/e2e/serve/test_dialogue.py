"""Dialogues over HTTP: one stream, any format, errors that name the segment."""

from pathlib import Path

import av
import pytest

from e2e.serve.running import LETTER_S, Running, heard
from unit.command import rhapsode

SEGMENTS = [
    {"voice": "low", "input": "Who is there?"},
    {"voice": "high", "input": "It is me.", "pause_s": 0.5},
    {"voice": {"id": "low"}, "input": "Come in."},
]
SPOKEN_S = sum(len(segment["input"]) for segment in SEGMENTS) * LETTER_S + 0.5 + 0.3


def speak(server: Running, **fields):
    return server.http.post("/v1/audio/speech", json={"segments": SEGMENTS, "seed": 1, **fields})


@pytest.mark.parametrize("response_format", ["wav", "mp3", "mulaw"])
def test_a_dialogue_is_one_stream_in_any_format(dummy: Running, response_format: str) -> None:
    answer = speak(dummy, response_format=response_format)
    assert answer.status_code == 200, answer.text
    assert heard(answer.content, response_format).duration_s == pytest.approx(SPOKEN_S, abs=0.11)
    outcome = dummy.http.get(f"/v1/audio/speech/{answer.headers['x-request-id']}").json()
    assert outcome["audio_s"] == pytest.approx(SPOKEN_S, abs=0.01)


@pytest.mark.parametrize("speed", [1.0, 1.3])
def test_a_dialogue_streams_as_it_would_come_whole(dummy: Running, speed: float) -> None:
    streamed = speak(dummy, response_format="pcm", speed=speed)
    whole = speak(dummy, response_format="pcm", speed=speed, stream=False)
    assert streamed.content == whole.content


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"input": "Hello."}, "segments", "give one of them"),
        ({"segments": []}, "segments", "at least 1 item"),
        ({"segments": [{"input": "A."}, {"input": "B.", "voice": "nobody"}]}, "segments.1.voice", "no voice 'nobody'"),
        ({"segments": [{"input": "A."}, {"input": " "}]}, "segments.1.input", "empty"),
        ({"segments": [{"input": "A.", "pause_s": 99}]}, "segments.0.pause_s", "less than or equal to 60"),
        ({"segments": [{"input": "A.", "speed": 2}]}, "segments.0.speed", "no field"),
    ],
)
def test_errors_name_the_segment(dummy: Running, fields: dict, param: str, message: str) -> None:
    answer = speak(dummy, **fields)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == param
    assert message in error["message"]


def test_a_server_speaks_scripts_and_books_of_the_command_line(dummy: Running, tmp_path: Path) -> None:
    (tmp_path / "talk.txt").write_text("[anna]: Who is there?\n[high]: It is me.\n")
    here = {"cwd": tmp_path, "timeout_s": 100}
    script = ("--script", "talk.txt", "--voice", "anna=low", "-o", "talk.wav", "--no-play")
    done = rhapsode("say", "--server", dummy.url, *script, **here)
    assert done.returncode == 0, done.stderr.decode()
    spoken_s = len("Who is there?It is me.") * LETTER_S + 0.3
    assert heard((tmp_path / "talk.wav").read_bytes(), "wav").duration_s == pytest.approx(spoken_s, abs=0.01)
    (tmp_path / "book.md").write_text("# One\n\nHello.\n\n# Two\n\nBye.\n")
    done = rhapsode("say", "--server", dummy.url, "--file", "book.md", "-o", "book.m4b", "--voice", "high", **here)
    assert done.returncode == 0, done.stderr.decode()
    with av.open(str(tmp_path / "book.m4b")) as book:
        assert [chapter["metadata"]["title"] for chapter in book.chapters()] == ["One", "Two"]
