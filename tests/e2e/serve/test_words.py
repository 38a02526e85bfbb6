"""Words with times over real sockets: server-sent events, JSON bodies, the WebSocket, the command line."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner
from websockets.sync.client import connect

import rhapsode.engine.alignment as alignment_module
from e2e.serve.running import Running, heard, in_thread, running
from e2e.serve.test_engine_process import wait_for
from rhapsode.cli.main import app
from spelling.family import LETTER_S, SPELLING, TONE_S
from spelling.hearing import ToneModel

TEXT = "It costs $12.50, they say."
WRITTEN = ["It", "costs", "$12.50", "they", "say"]
SPOKEN = "It costs twelve dollars and fifty cents, they say."
NEAR_S = 0.03


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment_module, "load_acoustic", lambda *_: ToneModel())
        with in_thread(SPELLING, tmp_path_factory.mktemp("words"), limits={"max_concurrency": 4}) as server:
            yield server


def check(words: list[dict], speed: float = 1.0) -> None:
    assert [word["word"] for word in words] == WRITTEN
    assert [TEXT[word["from"] : word["to"]] for word in words] == WRITTEN
    said = SPOKEN.index("say")
    assert words[0]["start"] == pytest.approx(0.0, abs=NEAR_S)
    assert words[2]["start"] == pytest.approx(SPOKEN.index("twelve") * LETTER_S / speed, abs=NEAR_S / speed)
    assert words[4]["start"] == pytest.approx(said * LETTER_S / speed, abs=NEAR_S / speed)
    assert words[4]["end"] == pytest.approx(((said + 2) * LETTER_S + TONE_S) / speed, abs=NEAR_S / speed)


def events(server: Running, **fields) -> list[dict]:
    answer = server.speak(TEXT, stream_format="sse", response_format="pcm", **fields)
    assert answer.status_code == 200, answer.text
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]


@pytest.mark.parametrize("speed", [1.0, 1.6])
def test_words_are_events_and_all_are_in_the_last(server: Running, speed: float) -> None:
    told = events(server, word_timestamps=True, speed=speed)
    words = [word for event in told if event["type"] == "speech.audio.words" for word in event["words"]]
    check(words, speed)
    assert told[-1]["type"] == "speech.audio.done"
    assert told[-1]["words"] == words


def test_words_come_while_the_audio_does(server: Running) -> None:
    kinds = [event["type"] for event in events(server, word_timestamps=True, wait_s=0.02)]
    assert kinds.index("speech.audio.words") < len(kinds) - 1 - kinds[::-1].index("speech.audio.delta")


def test_events_without_words_are_as_before(server: Running) -> None:
    told = events(server)
    assert {event["type"] for event in told} == {"speech.audio.delta", "speech.audio.done"}
    assert "words" not in told[-1]


def test_a_whole_request_is_a_json_body(server: Running) -> None:
    answer = server.speak(TEXT, word_timestamps=True, stream=False, response_format="wav")
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    check(body["words"])
    clip = heard(base64.b64decode(body["audio"]), body["format"])
    assert clip.duration_s == pytest.approx(len(SPOKEN) * LETTER_S, abs=0.01)
    assert (body["format"], body["finish_reason"], body["channels"]) == ("wav", "stop", 1)
    quality = server.http.get(f"/v1/audio/speech/{answer.headers['x-request-id']}").json()["quality"]
    assert quality == {"words": 5, "unheard": 0, "reached_end": True, "ended_early": False}


def test_items_of_a_batch_have_words(server: Running) -> None:
    body = {"word_timestamps": True, "items": [{"input": TEXT}, {"input": TEXT, "word_timestamps": False}]}
    first, second = server.http.post("/v1/audio/speech/batch", json=body).json()["results"]
    check(first["words"])
    assert "words" not in second


SSML = "<speak>one <mark name='here'/>two<mark name='end'/></speak>"


def check_marks(body: dict) -> None:
    _, two = body["words"]
    here, end = body["marks"]
    assert here == {"name": "here", "time": two["start"], "at": SSML.index("<mark")}
    assert end == {"name": "end", "time": two["end"], "at": SSML.rindex("<mark")}


def test_marks_come_with_the_words(server: Running) -> None:
    fields = {"input_type": "ssml", "word_timestamps": True}
    check_marks(server.speak(SSML, stream=False, **fields).json())
    answer = server.speak(SSML, stream_format="sse", response_format="pcm", **fields).text
    told = [json.loads(line.removeprefix("data: ")) for line in answer.splitlines() if line.startswith("data: ")]
    check_marks(told[-1])
    news = [event for event in told if event["type"] == "speech.audio.words"]
    assert [mark for event in news for mark in event.get("marks", ())] == told[-1]["marks"]
    assert [word for event in news for word in event["words"]] == told[-1]["words"]
    body = {"items": [{"input": SSML}], **fields}
    check_marks(server.http.post("/v1/audio/speech/batch", json=body).json()["results"][0])


def test_marks_come_over_the_socket(server: Running) -> None:
    config = {"response_format": "pcm", "word_timestamps": True, "input_type": "ssml"}
    told = over_socket(server, config, [SSML])
    news = [message for message in told if message["type"] == "audio.words"]
    found = {name: [one for message in news for one in message.get(name, ())] for name in ("words", "marks")}
    assert [mark["name"] for mark in found["marks"]] == ["here", "end"]
    check_marks(found)


def over_socket(server: Running, config: dict, pieces: list[str]) -> list[dict]:
    """Speaks a text in pieces; returns the messages that are not audio, up to the first `audio.done`."""
    told: list[dict] = []
    with connect(server.socket_url, proxy=None) as socket:
        socket.send(json.dumps({"type": "session.config", **config}))
        for piece in pieces:
            socket.send(json.dumps({"type": "input.text", "text": piece}))
        socket.send(json.dumps({"type": "input.done"}))
        while not told or told[-1]["type"] != "session.done":
            message = socket.recv(timeout=30)
            if isinstance(message, str):
                told.append(json.loads(message))
    return told[: [message["type"] for message in told].index("audio.done")]


def test_a_plain_stream_says_what_to_use_instead(server: Running) -> None:
    for fields in ({}, {"stream_format": "audio"}, {"stream": True}):
        answer = server.speak(TEXT, word_timestamps=True, **fields)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["param"] == "word_timestamps"
        assert "sse" in answer.json()["error"]["message"]
    server.settle()


def test_another_language_is_refused_with_the_option_that_helps(server: Running) -> None:
    for fields in ({"language": "de"}, {"input": "你好，世界。"}):
        body = {"input": "Guten Tag.", "stream": False, "word_timestamps": True, **fields}
        answer = server.http.post("/v1/audio/speech", json=body)
        assert answer.status_code == 400, answer.text
        assert "alignment: {model: FOLDER, language: " in answer.json()["error"]["message"]


def test_another_language_has_no_words_and_no_error_where_they_are_no_condition(server: Running) -> None:
    for fields in ({"language": "de"}, {"input": "你好，世界。"}, {"input": TEXT}):
        answer = server.http.post(
            "/v1/audio/speech", json={"input": "Guten Tag.", "stream": False, "word_timestamps": "auto", **fields}
        )
        assert answer.status_code == 200
        assert bool(answer.json()["words"]) == (fields == {"input": TEXT})
    config = {"response_format": "pcm", "word_timestamps": "auto"}
    told = over_socket(server, config, ["12 ", "你好。"])
    assert {message["type"] for message in told} <= {"audio.start", "audio.words"}


def test_the_model_says_what_it_can(server: Running) -> None:
    assert server.http.get("/v1/models").json()["data"][0]["text"]["word_timestamps"] == ["en"]


@pytest.mark.parametrize("cut", [1, 5, 1000])
def test_words_over_the_socket_are_those_of_the_whole(server: Running, cut: int) -> None:
    pieces = [TEXT[start : start + cut] for start in range(0, len(TEXT), cut)]
    told = over_socket(server, {"response_format": "pcm", "word_timestamps": True}, pieces)
    words = [word for message in told if message["type"] == "audio.words" for word in message["words"]]
    assert [word["start"] for word in words] == sorted(word["start"] for word in words)
    check(words)


@pytest.mark.parametrize("ending", ["silence", "repeat"])
def test_speech_that_goes_on_ends_well(server: Running, ending: str) -> None:
    fields = {"word_timestamps": True, "end_detection": True, "ending": ending}
    told = events(server, **fields)
    audio = b"".join(base64.b64decode(event["audio"]) for event in told if event["type"] == "speech.audio.delta")
    assert told[-1]["finish_reason"] == "stop"
    assert heard(audio, "pcm").duration_s < told[-1]["words"][-1]["end"] + 1.0
    server.settle()


def test_the_command_writes_subtitles_of_what_a_server_says(server: Running, tmp_path: Path) -> None:
    for kind in ("srt", "vtt"):
        file = tmp_path / f"talk.{kind}"
        arguments = ["say", "--no-play", "-q", "--server", server.url, "-o", str(tmp_path / "a.wav")]
        done = CliRunner().invoke(app, [*arguments, "--subtitles", str(file), TEXT])
        assert done.exit_code == 0, done.output
        assert TEXT in file.read_text()
    assert file.read_text().startswith("WEBVTT")


def test_the_command_refuses_other_files_before_it_speaks(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["say", "--subtitles", str(tmp_path / "a.txt"), "-o", str(tmp_path / "a.wav"), "Hi"])
    assert done.exit_code
    assert not (tmp_path / "a.wav").exists()


@pytest.mark.parametrize(
    "at_start", [None, *(pytest.param(at_start, marks=pytest.mark.slow) for at_start in (True, False))]
)
def test_the_aligner_is_there_before_the_first_click(tmp_path: Path, at_start: bool | None) -> None:
    settings = {} if at_start is None else {"alignment": {"at_start": at_start}}

    def is_told(server: Running) -> bool:
        return any("word times ready" in line for line in server.log)

    with running("rhapsode-nano", tmp_path, **settings) as server:
        if not at_start:
            assert not is_told(server)
            for _ in range(20):
                assert server.http.get("/").status_code == 200
        if at_start is not False:
            wait_for(lambda: is_told(server), "the aligner is not loaded")
        assert server.speak("Hello there.", word_timestamps=True, stream=False).status_code == 200
        assert sum("word times ready" in line for line in server.log) == (at_start is not False)
