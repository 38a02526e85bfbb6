"""Instructions for a checkpoint that takes none: spoken without them, and said so, wherever a request is accepted."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.sync.client import connect

from e2e.serve.running import Running, in_thread
from rhapsode.errors import IgnoredWarning, InvalidRequest
from rhapsode.tts import TTS
from rhapsode.types import SpeechRequest
from unit.command import rhapsode

TOLD = "hibari cannot take instructions"
BATCH = "/v1/audio/speech/batch"
CHAT = [{"role": "system", "content": "calm"}, {"role": "user", "content": "Hi."}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with in_thread("hibari", tmp_path_factory.mktemp("instructions")) as started:
        yield started


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with in_thread("hibari", tmp_path_factory.mktemp("strict"), server={"unknown_fields": "strict"}) as started:
        yield started


def test_speech_names_them_in_a_header_and_warns_in_the_outcome(server: Running) -> None:
    plain, told = (server.speak("Hi.", response_format="pcm", **more) for more in ({}, {"instructions": "calm"}))
    assert (told.status_code, told.headers["X-Ignored-Fields"]) == (200, "instructions")
    assert len(told.content) == len(plain.content) > 0
    assert "X-Ignored-Fields" not in plain.headers
    ids = [answer.headers["X-Request-Id"] for answer in (plain, told)]
    outcomes = [server.http.get(f"/v1/audio/speech/{request_id}").json() for request_id in ids]
    assert "warnings" not in outcomes[0]
    assert [TOLD in warning for warning in outcomes[1]["warnings"]] == [True]


def test_events_and_messages_of_a_chat_name_them_too(server: Running) -> None:
    events = server.speak("Hi.", stream_format="sse", instructions="calm")
    assert events.headers["X-Ignored-Fields"] == "instructions"
    chat = server.http.post("/v1/audio/speech", json={"messages": CHAT})
    assert (chat.status_code, chat.headers["X-Ignored-Fields"]) == (200, "messages.system")


def test_openais_client_speaks_with_them(server: Running) -> None:
    with server.openai.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="alloy", input="Hi.", instructions="Speak calmly.", response_format="wav"
    ) as answer:
        assert answer.read().startswith(b"RIFF")


def test_every_item_of_a_batch_names_its_own(server: Running) -> None:
    items = [{"input": "Hi.", "instructions": "calm"}, {"input": "Hi."}]
    results = server.http.post(BATCH, json={"items": items}).json()["results"]
    assert [result.get("ignored_fields") for result in results] == [["instructions"], None]
    shared = server.http.post(BATCH, json={"items": items[1:], "instructions": "calm"}).json()["results"]
    assert [result["ignored_fields"] for result in shared] == [["instructions"]]


@pytest.mark.parametrize("kind", ["session.update", "session.config"])
def test_a_session_names_them_in_its_events(server: Running, kind: str) -> None:
    with connect(server.socket_url, proxy=None) as socket:
        socket.send(json.dumps({"type": kind, "instructions": "calm"}))
        if kind == "session.update":
            assert json.loads(socket.recv(10)) == {"type": "session.updated", "ignored_fields": ["instructions"]}
        socket.send(json.dumps({"type": "input.text", "text": "Hi."}))
        socket.send(json.dumps({"type": "input.done"}))
        start = json.loads(socket.recv(10))
        assert (start["type"], start["ignored_fields"]) == ("audio.start", ["instructions"])


def test_a_strict_server_refuses_them_and_names_its_setting(strict: Running) -> None:
    answer = strict.speak("Hi.", instructions="calm")
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "instructions")
    assert TOLD in error["message"]
    assert "server.unknown_fields: strict" in error["message"]
    chat = strict.http.post("/v1/audio/speech", json={"messages": CHAT})
    assert (chat.status_code, chat.json()["error"]["param"]) == (400, "messages")
    assert strict.speak("Hi.", instructions="").status_code == 200  # empty: nothing is asked for
    with connect(strict.socket_url, proxy=None) as socket:
        socket.send(json.dumps({"type": "session.config", "instructions": "calm"}))
        assert json.loads(socket.recv(10))["error"]["param"] == "instructions"


def test_other_fields_without_effect_are_refused_as_before(server: Running) -> None:
    for field in ({"temperature": 0.5}, {"pitch": 2}, {"ref_audio": "data:,"}):
        assert server.speak("Hi.", instructions="calm", **field).status_code == 400
    assert server.speak("Hi.", instructions=7).json()["error"]["param"] == "instructions"


def test_the_library_warns_and_its_engine_refuses(tmp_path: Path) -> None:
    with TTS("hibari", device="cpu", limits={"max_concurrency": 1}) as tts:
        with pytest.warns(IgnoredWarning, match=TOLD) as caught:
            tts.speak("Hi.", instructions="calm")
        assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]
        with pytest.raises(InvalidRequest, match=TOLD):
            tts.engine.submit(SpeechRequest("Hi.", instructions="calm"))


@pytest.mark.parametrize("quiet", [False, True])
def test_say_warns_unless_it_is_quiet(tmp_path: Path, server: Running, quiet: bool) -> None:
    wish = ["say", "--no-play", "--instructions", "calm", *(["-q"] if quiet else []), "Hi."]
    here = rhapsode(*wish, "-m", "hibari", "--device", "cpu", cwd=tmp_path)
    there = rhapsode(*wish, "--server", server.url, cwd=tmp_path)
    assert (here.returncode, there.returncode) == (0, 0), here.stderr + there.stderr
    assert (f"rhapsode: instructions are ignored: {TOLD}" in here.stderr.decode()) != quiet
    assert ("rhapsode: the server ignored: instructions." in there.stderr.decode()) != quiet
