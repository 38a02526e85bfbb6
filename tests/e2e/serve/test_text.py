"""How a text is read, over HTTP, the WebSocket and the command line: words, respellings, SSML."""

import json
import wave
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from websockets.sync.client import connect

from e2e.serve.running import LETTER_S, Running, running
from rhapsode import TTS
from unit.command import rhapsode

RATE = 16_000
PAUSE_S = 0.5
SSML = f"<speak>One<break time='{PAUSE_S}s'/>two</speak>"
PCM = {"response_format": "pcm", "sample_rate": RATE, "seed": 4}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("text")
    (folder / "lexicon.yaml").write_text("nginx: engine x\n")
    settings = {"limits": {"max_concurrency": 4, "max_positions": 1024}, "lexicon": str(folder / "lexicon.yaml")}
    with running("dummy", folder, **settings) as server:
        yield server
        server.check_callbacks()


def samples(server: Running, text: str, **fields) -> np.ndarray:
    answer = server.speak(text, **PCM, **fields)
    assert answer.status_code == 200, answer.text
    return np.frombuffer(answer.content, "<i2")


def test_numbers_are_written_out_where_that_is_asked_for(server: Running) -> None:
    words = samples(server, "It is twelve.")
    assert np.array_equal(samples(server, "It is 12.", normalise=True), words)
    assert len(samples(server, "It is 12.", normalise=False)) < len(words)
    assert len(samples(server, "It is 12.")) < len(words)  # the dummy wants its text as it is written


def test_words_are_respelt_by_the_server_and_by_the_request(server: Running) -> None:
    assert np.array_equal(samples(server, "Ask nginx."), samples(server, "Ask engine x."))
    assert np.array_equal(samples(server, "Ask SQL.", lexicon={"SQL": "sequel"}), samples(server, "Ask sequel."))
    assert np.array_equal(samples(server, "Ask nginx.", lexicon={"nginx": "it"}), samples(server, "Ask it."))


def test_the_api_lists_the_lexicon_and_what_can_be_read(server: Running) -> None:
    assert server.http.get("/v1/audio/lexicon").json()["data"] == [{"word": "nginx", "spoken": "engine x"}]
    text = server.http.get("/v1/models").json()["data"][0]["text"]
    assert text["input_types"] == ["text", "ssml", "markdown", "html"]
    assert text["normalise"] is False
    assert {"en", "zh"} <= set(text["normalise_languages"])
    assert text["lexicon_words"] == 1
    assert "lexicon" not in server.http.get("/v1/models").json()["data"][0]["deployment"]


@pytest.mark.parametrize("fields", [{}, {"stream": False}, {"speed": 2.0}])
def test_a_pause_is_exact_silence_at_any_speed(server: Running, fields: dict) -> None:
    heard = samples(server, SSML, input_type="ssml", **fields)
    speed = fields.get("speed", 1.0)
    letters = len("One") + len("two")
    assert len(heard) == pytest.approx((letters * LETTER_S / speed + PAUSE_S) * RATE, abs=2)
    start = round(len("One") * LETTER_S / speed * RATE)
    assert not heard[start : start + round(PAUSE_S * RATE)].any()
    assert heard[:start].any()
    assert heard[start + round(PAUSE_S * RATE) :].any()


def test_streamed_and_whole_are_the_same(server: Running) -> None:
    text = f"<speak>{SSML[7:-8]}<prosody rate='150%'>three four</prosody></speak>"
    streamed = samples(server, text, input_type="ssml", speed=1.5)
    assert np.array_equal(samples(server, text, input_type="ssml", speed=1.5, stream=False), streamed)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": "<speak><audio src='x'/>a</speak>", "input_type": "ssml"}, "input"),
        ({"input": "<speak>&x;</speak>", "input_type": "ssml"}, "input"),
        ({"input": "<speak><break/></speak>", "input_type": "ssml"}, "input"),
        ({"input": "plain", "input_type": "ssml"}, "input"),
        ({"input": "a", "input_type": "latex"}, "input_type"),
        ({"input": "```\ncode\n```", "input_type": "markdown"}, "input"),
        ({"input": "a", "normalise": "yes"}, "normalise"),
        ({"input": "a", "lexicon": {"a": ""}}, "lexicon"),
        ({"input": "a", "lexicon": ["a"]}, "lexicon"),
        ({"input": "a", "normalise": True, "language": "nl"}, "normalise"),
    ],
)
def test_what_cannot_be_read_is_a_clear_400(server: Running, fields: dict, param: str) -> None:
    answer = server.http.post("/v1/audio/speech", json=fields)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param


def test_plain_text_with_a_bracket_stays_plain_text(server: Running) -> None:
    assert len(samples(server, SSML)) == round(len(SSML) * LETTER_S * RATE)


def over_the_socket(server: Running, text: str, cut: int, **config) -> tuple[bytes, list[dict]]:
    audio, told = b"", []
    with connect(server.socket_url, proxy=None) as socket:
        socket.send(json.dumps({"type": "session.config", **PCM, **config}))
        for start in range(0, len(text), cut):
            socket.send(json.dumps({"type": "input.text", "text": text[start : start + cut]}))
        socket.send(json.dumps({"type": "input.done"}))
        while not told or told[-1]["type"] not in ("session.done", "error"):
            message = socket.recv(timeout=20)
            if isinstance(message, bytes):
                audio += message
            else:
                told.append(json.loads(message))
    return audio, told


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_a_document_over_the_socket_sounds_like_the_whole(server: Running, cut: int) -> None:
    audio, _ = over_the_socket(server, SSML, cut, input_type="ssml")
    assert np.array_equal(np.frombuffer(audio, "<i2"), samples(server, SSML, input_type="ssml"))


MARKDOWN = "# Oil\n\nIt is *very* [hot](http://x.y).\n\n- one\n- two\n\n```\nno\n```"
MARKDOWN_SAID = ("Oil.", "It is very hot. one. two.")
MARKDOWN_PAUSE_S = 0.5


def test_markdown_is_spoken_without_its_marks(server: Running) -> None:
    audio = samples(server, MARKDOWN, input_type="markdown")
    first, rest = (samples(server, text) for text in MARKDOWN_SAID)
    pause = np.zeros(round(MARKDOWN_PAUSE_S * RATE), np.int16)
    assert np.array_equal(audio[: len(first) + len(pause)], np.concatenate([first, pause]))
    assert len(audio) == len(first) + len(pause) + len(rest)
    html = "<h1>Oil</h1><p>It is <b>very</b> <a href='x'>hot</a>.</p><ul><li>one<li>two</ul><pre>no</pre>"
    assert np.array_equal(samples(server, html, input_type="html"), audio)


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_markdown_over_the_socket_sounds_like_the_whole(server: Running, cut: int) -> None:
    audio, _ = over_the_socket(server, MARKDOWN, cut, input_type="markdown")
    assert np.array_equal(np.frombuffer(audio, "<i2"), samples(server, MARKDOWN, input_type="markdown"))


@pytest.mark.parametrize("cut", [1, 1000])
def test_markdown_by_sentence_is_spoken_sentence_by_sentence(server: Running, cut: int) -> None:
    _, told = over_the_socket(server, MARKDOWN, cut, input_type="markdown", split_granularity="sentence")
    spoken = [message["sentence_text"] for message in told if message["type"] == "audio.start"]
    assert spoken == ["Oil.", "It is very hot.", "one.", "two."]


def test_numbers_over_the_socket_are_whole_numbers(server: Running) -> None:
    audio, _ = over_the_socket(server, "It is 12.5 now.", 2, normalise=True)
    assert np.array_equal(np.frombuffer(audio, "<i2"), samples(server, "It is twelve point five now."))


def test_a_wrong_document_over_the_socket_is_told_and_frees_its_slot(server: Running) -> None:
    _, told = over_the_socket(server, "<speak>Hello <audio/></speak>", 9, input_type="ssml")
    assert "not supported" in told[-1]["message"]
    server.settle()


def test_a_long_text_of_numbers_keeps_nobody_waiting(server: Running) -> None:
    answer = server.speak("5 " * 900, normalise=True, **PCM)  # more than the dummy can hold, once it is words
    assert answer.status_code == 413
    server.check_callbacks()


def duration_s(file: Path) -> float:
    with wave.open(str(file)) as wav:
        return wav.getnframes() / wav.getframerate()


@pytest.mark.slow
def test_the_command_reads_text_in_the_same_ways(server: Running, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("SQL: sequel\n")
    (tmp_path / "notes.md").write_text("# *Oil*\n\nHi")
    for where in ((), ("--server", server.url)):
        for arguments, letters in (
            (("--ssml", SSML), 6 + PAUSE_S / LETTER_S),
            (("--normalise", "It is 12."), len("It is twelve.")),
            (("--no-normalise", "It is 12."), len("It is 12.")),
            (("--lexicon", "mine.yaml", "SQL"), len("sequel")),
            (("--input-type", "markdown", "# *Oil*\nHi"), len("Oil.Hi.") + MARKDOWN_PAUSE_S / LETTER_S),
            (("--file", "notes.md"), len("Oil.Hi.") + MARKDOWN_PAUSE_S / LETTER_S),
        ):
            done = rhapsode("say", "--no-play", *where, *arguments, cwd=tmp_path, RHAPSODE_MODEL="dummy")
            assert done.returncode == 0, done.stderr.decode()
            assert duration_s(tmp_path / "speech.wav") == pytest.approx(letters * LETTER_S, abs=0.002)


def test_the_library_reads_text_in_the_same_ways() -> None:
    with TTS("dummy", limits={"max_concurrency": 1}) as tts:
        heard = tts.speak(SSML, input_type="ssml", speed=2.0, seed=1)
        assert heard.duration_s == pytest.approx(6 * LETTER_S / 2 + PAUSE_S, abs=0.001)
        words = tts.speak("twelve", seed=1).samples
        assert np.array_equal(tts.speak("12", normalise=True, seed=1).samples, words)
        assert np.array_equal(tts.speak("dozen", lexicon={"dozen": "twelve"}, seed=1).samples, words)


def test_a_wav_of_a_document_is_a_whole_file(server: Running) -> None:
    answer = server.speak(SSML, input_type="ssml", response_format="wav", stream=False)
    with wave.open(BytesIO(answer.content)) as wav:
        assert wav.getnframes() / wav.getframerate() == pytest.approx(6 * LETTER_S + PAUSE_S, abs=0.001)
