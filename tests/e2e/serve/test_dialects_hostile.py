"""Attacks through a dialect find nothing new: limits, keys, origins, odd JSON, clients that leave."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from e2e.serve.dialect_rows import KOKORO, SAMPLE, SGLANG, VLLM
from e2e.serve.other_client import SPEECH, VOICES, OtherClient, kinds, receive
from e2e.serve.running import Running, in_thread, running
from tiny.dummy import write

DIALECTS = (VLLM, SGLANG, KOKORO)
POSTS = {
    VLLM: (SPEECH, f"{SPEECH}/batch", "/v1/chat/completions"),
    SGLANG: (SPEECH, f"{SPEECH}/batch", "/generate"),
    KOKORO: (SPEECH, "/dev/captioned_speech", "/dev/phonemize", "/dev/dialogue", f"{VOICES}/combine", "/dev/unload"),
}
PATHS = [(dialect, path) for dialect, paths in POSTS.items() for path in paths]
JSON = {"Content-Type": "application/json"}
BODIES = {
    "deep list": b"[" * 100_000,
    "deep object": b'{"input": ' * 50_000,
    "deep field": b'{"input": "Hi.", "extra_params": ' + b'{"a": ' * 1500 + b"1" + b"}" * 1501,
    "many values": b'{"input": "Hi.", "x": [' + b"1," * 200_000 + b"1]}",
    "many names": b"{" + b",".join(b'"n%d": 1' % at for at in range(20_000)) + b"}",
    "lone surrogate": b'{"input": "Hi. \\ud800", "voice": "\\ud800", "text": "\\udfff", "ref_audio": "\\ud800"}',
    "not a number": b'{"input": "Hi.", "speed": NaN, "seed": Infinity, "speaker_embedding": [NaN]}',
    "long number": b'{"input": "Hi.", "seed": ' + b"9" * 5000 + b"}",
    "not UTF-8": b'{"input": "\xff\xfe"}',
    "no JSON": b"{",
    "nothing": b"",
    "a list": b'["a", "b"]',
    "a text": b'"a+b"',
    "wrong types": b'{"input": 7, "voice": [], "stream": "x", "items": {}, "references": [7], "turns": [[]]}',
    "odd voice": b'{"input": "Hi.", "voice": "a(\\ud800)+b("}',
    "odd mix": b'{"input": "Hi.", "voice": "\\ud800+a"}',
    "long shared voice": b'{"voice": "%s", "items": [%s{}]}' % (b"x" * 100_000, b"{}," * 1499),
    "odd pause": b'{"turns": [{"text": "a"}, {"text": "b"}], "pause_between_turns": "%s"}' % (b"x" * 10_000),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """In a process of its own, which reports what keeps its event loop busy."""
    folder = tmp_path_factory.mktemp("dialects-hostile")
    settings = {"limits": {"max_concurrency": 4, "max_text_chars": 5000}, "server": {"max_body_bytes": 2_000_000}}
    with running(write(folder / "checkpoint"), folder, **settings) as started:
        yield started


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize(("dialect", "path"), PATHS)
def test_an_odd_body_is_an_error_of_the_client(server: Running, dialect: str, path: str, kind: str) -> None:
    answer = server.http.post(f"/{dialect}{path}", content=BODIES[kind], headers=JSON)
    assert answer.status_code in (200, 400, 403, 404, 413), answer.text[:300]
    assert "Traceback" not in answer.text
    if answer.status_code >= 400:
        assert answer.json().keys() == ({"detail"} if dialect == KOKORO else {"error"})


@pytest.mark.parametrize(("dialect", "path"), PATHS)
def test_a_large_body_is_refused(server: Running, dialect: str, path: str) -> None:
    answer = server.http.post(f"/{dialect}{path}", content=b" " * 2_100_000, headers=JSON)
    assert answer.status_code == 413
    untyped = server.http.post(f"/{dialect}{path}", content=b"{}", headers={"Content-Type": "text/plain"})
    assert untyped.status_code in (404, 415, 403)  # a page of another origin can send this without being asked


@pytest.mark.parametrize(
    "raw", ["[" * 100_000, '{"type": ' * 50_000, '{"a": [' + "1," * 200_000 + "1]}", '"\\ud800"', "NaN"]
)
@pytest.mark.parametrize("dialect", [VLLM, SGLANG])
def test_an_odd_message_is_an_error(server: Running, dialect: str, raw: str) -> None:
    with OtherClient(f"{server.url}/{dialect}").socket() as socket:
        socket.send(raw)
        assert json.loads(socket.recv(10))["type"] == "error"
        socket.send(json.dumps({"type": "session.config", "session": {"input": "\ud800"}, "odd": float("nan")}))
        socket.send(json.dumps({"type": "input.text", "text": ", " * 4000 + "Hi.", "odd": "x"}))
        socket.send(json.dumps({"type": "input.cancel"}))
        while json.loads(socket.recv(10))["type"] != "session.cancelled":
            pass


def test_a_commit_with_a_long_id_is_an_error(server: Running) -> None:
    with OtherClient(f"{server.url}/{VLLM}").socket() as socket:
        socket.send(json.dumps({"type": "input.commit", "commit_id": "x" * 500_000}))
        assert json.loads(socket.recv(10))["type"] == "error"
        socket.send(json.dumps({"type": "input.done"}))
        assert receive(socket, "session.done")[-1]["total_sentences"] == 0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_json_by_another_name_is_translated_too(server: Running, dialect: str) -> None:
    """Its answer was translated without what the request has to say, which is a traceback."""
    for path in POSTS[dialect][:2]:
        body = {"input": "Hi.", "stream_format": "sse", "items": [{"input": "Hi."}]}
        odd = server.http.post(f"/{dialect}{path}", json=body, headers={"Content-Type": "application/x+json"})
        plain = server.http.post(f"/{dialect}{path}", json=body)
        assert (odd.status_code, odd.headers["content-type"]) == (plain.status_code, plain.headers["content-type"])
        assert odd.status_code < 500


def test_a_long_body_of_many_strings_is_refused(server: Running) -> None:
    body = b'{"stream_format": "sse", "input": "' + b'\\"' * 600_000 + b'"}'
    for dialect in DIALECTS:
        assert server.http.post(f"/{dialect}{SPEECH}", content=body, headers=JSON).status_code == 400


@pytest.mark.parametrize("name", ["%ED%A0%80", "%00", "%FF", "a%2F..%2Fb"])
def test_an_odd_name_of_a_voice_is_not_found(server: Running, name: str) -> None:
    for dialect in DIALECTS:
        assert server.http.delete(f"/{dialect}{VOICES}/{name}").status_code in (400, 404, 405)


def test_a_message_of_many_clauses_is_one_text_and_refused_once(server: Running) -> None:
    config = {"type": "session.config", "split_granularity": "clause", "stream_audio": True, "response_format": "pcm"}
    with OtherClient(f"{server.url}/{VLLM}").socket() as socket:
        for text in ("\uff0c" * 4000, "a\uff0c" * 16_000):
            for message in (config, {"type": "input.text", "text": text}, {"type": "input.cancel"}):
                socket.send(json.dumps(message))
        assert "error" not in kinds(receive(socket, "session.cancelled"))
        assert "session.cancelled" in kinds(receive(socket, "error"))
        assert json.loads(socket.recv(10))["type"] == "session.cancelled"
        socket.send(json.dumps({"type": "input.done"}))
        assert kinds(receive(socket, "session.done")) == ["session.done"]


@pytest.mark.parametrize("dialect", [VLLM, SGLANG])
def test_a_large_message_ends_the_connection(server: Running, dialect: str) -> None:
    with OtherClient(f"{server.url}/{dialect}").socket() as socket:
        with suppress(ConnectionClosed):  # the server may close before it has all of it
            socket.send("x" * 2_100_000)
        with pytest.raises(ConnectionClosed):
            socket.recv(10)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_clients_that_leave_hold_nothing(server: Running, dialect: str) -> None:
    other = OtherClient(f"{server.url}/{dialect}")
    body = {"input": "word " * 120, "stream": True, "stream_format": "audio", "response_format": "wav"}
    for _ in range(6):
        with other.http.stream("POST", SPEECH, json=body) as answer:
            assert answer.status_code == 200
            next(answer.iter_bytes())
    if dialect != KOKORO:
        for _ in range(6):
            with other.socket() as socket:
                socket.send(json.dumps({"type": "session.config", "stream_audio": True, "response_format": "pcm"}))
                socket.send(json.dumps({"type": "input.text", "text": "word " * 120}))
                socket.send(json.dumps({"type": "input.done"}))
    server.settle()


@pytest.mark.parametrize(
    "path", ["/vllm-omni/sglang-omni", "/vllm-omni//v1/audio/speech", "/vllm-omni", "/VLLM-OMNI/v1"]
)
def test_a_prefix_counts_once_and_as_it_is_written(server: Running, path: str) -> None:
    assert server.http.post(f"{path}/v1/audio/speech", json={"input": "Hi."}).status_code in (200, 404, 405)
    assert server.http.post("/vllm-omni/sglang-omni/v1/audio/speech", json={"input": "Hi."}).status_code == 404
    assert server.http.get("/vllm-omni/../metrics").status_code in (200, 404)


def test_pages_of_other_origins_are_refused(server: Running) -> None:
    for dialect in DIALECTS:
        answer = server.http.post(
            f"/{dialect}{SPEECH}", json={"input": "Hi."}, headers={"Origin": "https://evil.example"}
        )
        assert answer.status_code == 403
    with pytest.raises(InvalidStatus):
        connect(f"ws{server.url[4:]}/vllm-omni/v1/audio/speech/stream", origin="https://evil.example", proxy=None)


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("slow")
    with in_thread("dummy", folder, options={"frame_sleep_s": 0.03}, graphs=False) as server:
        yield server


@pytest.mark.parametrize(
    ("path", "wire_first"),
    [(f"/{VLLM}{SPEECH}", b"event: "), (f"/{SGLANG}{SPEECH}", b"data: "), (f"/{KOKORO}{SPEECH}", b"RIFF")],
)
def test_the_first_audio_is_sent_while_the_rest_is_made(slow: Running, path: str, wire_first: bytes) -> None:
    started_s = time.monotonic()
    with slow.http.stream(
        "POST", path, json={"input": "word " * 8, "stream": True, "response_format": "wav"}
    ) as answer:
        pieces = answer.iter_raw()
        first = next(pieces)
        first_s = time.monotonic() - started_s
        assert first.startswith(wire_first)
        assert sum(map(len, pieces)) > 3 * len(first)
    assert first_s < (time.monotonic() - started_s) / 2


def test_keys_are_needed_for_every_route_of_a_dialect(tmp_path) -> None:
    keys = ["own", {"key": "theirs", "dialect": VLLM}]
    checkpoint = write(tmp_path / "checkpoint")
    with in_thread(checkpoint, tmp_path, server={"api_keys": keys, "public_lists": True}) as server:
        for dialect, path in PATHS:
            for key in ("", "wrong"):
                headers = {"Authorization": f"Bearer {key}"} if key else {}
                assert server.http.post(f"/{dialect}{path}", json={"input": "Hi."}, headers=headers).status_code == 401
        form = {"name": "Ada", "consent": "secret words"}
        files = {"audio_sample": ("a.wav", SAMPLE, "audio/wav")}
        theirs = {"Authorization": "Bearer theirs"}
        assert server.http.post(VOICES, data=form, files=files, headers=theirs).json()["success"]
        for dialect in DIALECTS:  # a public list tells names only
            listed = server.http.get(f"/{dialect}{VOICES}")
            assert (listed.status_code, "Ada" in listed.text, "secret" in listed.text) == (200, True, False)
        told = server.http.get("/v1/models", headers=theirs).json()["data"][0]["deployment"]["server"]
        assert not {"api_keys", "key_dialects"} & told.keys()
        url = f"ws{server.url[4:]}/v1/audio/speech/stream"
        with connect(url, subprotocols=["x", "openai-insecure-api-key.theirs"], proxy=None) as socket:
            socket.send('{"type": "input.done"}')
            assert json.loads(socket.recv(10)) == {"type": "session.done", "utterance_index": 0, "total_sentences": 0}
            socket.send('{"type": "session.close"}')
            with pytest.raises(ConnectionClosed):
                socket.recv(10)


def test_a_request_may_wish_for_leniency_and_nothing_else(server: Running) -> None:
    for wish, status in (("ignore", 200), ("refuse", 400), ("nonsense", 400), ("", 400)):
        answer = server.http.post(SPEECH, json={"input": "Hi.", "odd": 1}, headers={"X-Unknown-Fields": wish})
        assert answer.status_code == status
