"""Whatever a client sends, the edge answers as one server would: it says what is wrong, and never fails itself."""

import base64
import http.client
import json
import socket
from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from e2e.serve.running import LETTER_BYTES, Running, in_thread
from unit.edge.test_edge import LIMITS, Servers, edge_before

JSON = "Content-Type: application/json\r\n"
ELEVENLABS = "/v1/text-to-speech/low/{kind}?output_format=pcm_16000"


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    with in_thread("dummy", tmp_path_factory.mktemp("one"), limits=LIMITS, edge_secret="secret-of-a") as one:
        yield one


@pytest.fixture(scope="module")
def edge(server: Running) -> Iterator[Running]:
    """Two replicas, so that the edge has to choose; they are the same server."""
    with edge_before(Servers({"a": server.url, "b": server.url})) as started:
        yield started


def status(server: Running, method: str, target: str, headers: str = "", body: bytes = b"") -> int:
    """The status of an answer to a request that is sent byte by byte as it is here; 0 if there is none."""
    return answer(server, method, target, headers, body)[0]


def answer(
    server: Running, method: str, target: str, headers: str = "", body: bytes = b"", length: str | None = None
) -> tuple[int, list[object]]:
    """The status, and what is wrong with the request; for a batch, with each of its items."""
    head = f"{method} {target} HTTP/1.1\r\n{headers}Connection: close\r\n"
    head += "" if "Host:" in headers else "Host: 127.0.0.1\r\n"
    head += "" if "Transfer-Encoding:" in headers else f"Content-Length: {len(body) if length is None else length}\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(f"{head}\r\n".encode("latin-1") + body)
        received = http.client.HTTPResponse(raw, method=method)
        try:
            received.begin()
        except http.client.BadStatusLine:
            return 0, []
        said = received.read()
    if "json" not in received.headers.get("content-type", "") or not said:
        return received.status, [len(said)]
    about = json.loads(said)
    return received.status, [
        about.get("error"),
        about.get("detail"),
        *(one["error"] for one in about.get("results", ()) if "error" in one),
    ]


BODIES = [
    b'{"items": [{"model": []}]}',
    b'{"items": [{"model": {}}], "model": 3}',
    b'{"items": {"model": "a"}}',
    b'{"items": [[{"model": 1}], null]}',
    b'{"input": "Hi.", "model": []}',
    b'{"input": "Hi.", "model": "\\ud800"}',
    b'{"input": "Hi.", "model": "%s"}' % (b"x" * 5000),
    b'{"input": "Hi.", "voice": "\\ud800"}',
    b'{"input": "Hi.", "voice": {"id": "\\udfff"}}',
    b'{"input": "Hi.", "voice": {"id": [1]}}',
    b'{"input": "Hi.", "voice": [[]]}',
    b'{"input": "Hi.", "speaker": true}',
    b'{"input": "Hi.", "ref_audio": "\\ud800"}',
    b'{"input": "Hi.", "references": %s1%s}' % (b"[" * 150, b"]" * 150),
    b'{"input": "Hi.", "references": %s1%s}' % (b"[" * 990, b"]" * 990),
    b'{"input": "Hi.", "references": %s1%s}' % (b'{"a":' * 50_000, b"}" * 50_000),
    b'{"input": "Hi.", "speaker_embedding": 1e999}',
    b'{"input": "Hi.", "speaker_embedding": %s}' % (b"9" * 4200),
    b'{"input": "Hi.", "seed": %s}' % (b"9" * 9000),
    b'{"\\ud800": 1, "input": "Hi."}',
    b'\xff\xfe{\x00"\x00',
    b"null",
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@pytest.mark.parametrize("path", ["/v1/audio/speech", "/v1/audio/speech/batch"])
def test_a_body_is_judged_as_one_server_judges_it(server: Running, edge: Running, path: str, body: bytes) -> None:
    expected = status(server, "POST", path, JSON, body)
    assert 200 <= expected < 500
    assert status(edge, "POST", path, JSON, body) == expected


ODD = ["null", "true", "-1", "1e400", "NaN", '""', '" "', '"\\u0000"', '"nobody"', '"DUMMY"', "[]", "{}", '{"id": []}']
ITEM = '{"input": "Hi."}'
FIELDS = [
    f'{{"input": "Hi.", "{name}": {value}}}' for name in ("model", "voice", "items", "references") for value in ODD
]
FIELDS += [f'{{"items": [{ITEM}], "{name}": {value}}}' for name in ("model", "items") for value in ODD]
FIELDS += [f'{{"items": [{ITEM}, {{"input": "Hi.", "model": {value}}}]}}' for value in ODD]
FIELDS += [
    '{"items": [{"input": "a", "model": "dummy"}, {"input": "b", "model": "tts-1"}]}',
    '{"items": [{"input": "a", "model": "dummy"}, {"input": "b", "model": "nobody"}]}',
    '{"items": [{"input": "a", "model": "nobody"}, {"input": "b", "model": "nowhere"}]}',
    '{"model": "dummy", "items": [{"input": "b", "model": "tts-1"}]}',
    '{"input": "Hi.", "model": "nobody", "model": "dummy"}',
    '{"input": "Hi.", "model": "dummy", "model": "nobody"}',
    '{"input": "Hi."}{}',
    "\ufeff{}",
    "",
]


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/v1/audio/speech/batch"])
def test_what_is_wrong_with_a_field_is_said_as_one_server_says_it(server: Running, edge: Running, path: str) -> None:
    is_batch = path.endswith("batch")
    for body in (one for one in FIELDS if is_batch or not one.startswith('{"items"')):
        expected = answer(server, "POST", path, JSON, body.encode())
        assert expected[0] < 500
        assert answer(edge, "POST", path, JSON, body.encode()) == expected, body


FORM = "Content-Type: multipart/form-data; boundary=B\r\n"
PARTS = [
    b'Content-Disposition: form-data; name="\xff"\r\n\r\nA',
    b'Content-Disposition: form-data; name=""\r\n\r\nA',
    b"Content-Disposition: form-data\r\n\r\nA",
    b'Content-Disposition: form-data; name="audio_sample"; filename="../../x\x00"\r\n\r\nA',
    b'Content-Disposition: form-data; name="model"\r\n\r\nnobody',
    b'Content-Disposition: form-data; name="' + b"n" * 9000 + b'"\r\n\r\nA',
    b"\r\n\r\nA",
]


@pytest.mark.parametrize("path", ["/v1/audio/voices", "/v1/audio/detect", "/v1/audio/speech", "/v1/voices/add"])
def test_a_form_is_judged_as_one_server_judges_it(server: Running, edge: Running, path: str) -> None:
    for body in [*(b"--B\r\n" + part + b"\r\n--B--\r\n" for part in PARTS), b"--B\r\n", b"--C\r\n", b""]:
        expected = answer(server, "POST", path, FORM, body)
        assert expected[0] < 500
        assert answer(edge, "POST", path, FORM, body) == expected, body[:80]


@pytest.mark.parametrize("length", ["-1", "+15", "15,15", "0xf", "9" * 20, "", "15\r\nContent-Length: 16"])
def test_a_length_is_judged_as_one_server_judges_it(server: Running, edge: Running, length: str) -> None:
    request = ("POST", "/v1/audio/speech", JSON, b'{"input":"Hi."}', length)
    expected = answer(server, *request)
    assert expected[0] < 500
    assert answer(edge, *request) == expected


@pytest.mark.parametrize(
    "body", [b"zz\r\n", b"-1\r\n", b"f" * 20 + b"\r\n", b"0\r\n\r\n", b'f;a=1\r\n{"input":"Hi."}\r\n0\r\nX: y\r\n\r\n']
)
def test_chunks_are_judged_as_one_server_judges_them(server: Running, edge: Running, body: bytes) -> None:
    request = ("POST", "/v1/audio/speech", f"{JSON}Transfer-Encoding: chunked\r\n", body)
    expected = answer(server, *request)
    assert expected[0] < 500
    assert answer(edge, *request) == expected


@pytest.mark.parametrize("method", ["HEAD", "TRACE", "CONNECT", "OPTIONS", "PUT", "PATCH", "DELETE"])
def test_a_method_is_judged_as_one_server_judges_it(server: Running, edge: Running, method: str) -> None:
    for target in (
        "/v1/audio/speech",
        "/v1/models",
        "/health",
        "/metrics",
        "/v1/audio/voices",
        "/",
        "/v1/models/dummy",
    ):
        expected = answer(server, method, target)
        assert expected[0] in (404, 405) or (method, target) == ("HEAD", "/")
        assert answer(edge, method, target) == expected, target


@pytest.mark.parametrize(
    "query", ["model=", "model", "model=dummy&model=", "MODEL=nobody", "&&=&model=tts-1", "model=&a=%ff"]
)
def test_an_address_that_names_no_model_names_the_first(server: Running, edge: Running, query: str) -> None:
    for method, path, body in (
        ("POST", "/v1/audio/speech", ITEM),
        ("POST", "/v1/text-to-speech/low", '{"text": "Hi."}'),
        ("GET", "/v1/audio/voices", ""),
        ("GET", "/v2/voices", ""),
    ):
        request = (method, f"{path}?{query}", JSON if body else "", body.encode())
        assert status(edge, *request) == status(server, *request) == 200


@pytest.mark.parametrize(
    "query", ["model=nobody", "model=%00", "model=%ed%a0%80", "model=dummy&model=nobody", f"model={'x' * 3000}"]
)
def test_a_model_of_an_address_that_nobody_serves_is_a_404(edge: Running, query: str) -> None:
    found, (error, *_) = answer(edge, "POST", f"/v1/audio/speech?{query}", JSON, ITEM.encode())
    assert (found, error["code"]) == (404, "model_not_found")


TARGETS = [
    "/v1/audio/speech/%0d%0aX-Injected:1",
    "/v1/audio/speech/%23%3f%20%e9%ff",
    "/v1/models/%0a",
    "/v1/models/%ed%a0%80",
    "/v1/audio/voices/%0d%0a",
    "/v1/voices/%ed%a0%80",
    "/v2/voices?search=%ed%a0%80%00",
    "/v1/models#x",
    "//v1/models",
    "/v1/../v1/models",
    "@evil.example/",
    "*",
]


@pytest.mark.parametrize("target", TARGETS)
def test_an_address_is_judged_as_one_server_judges_it(server: Running, edge: Running, target: str) -> None:
    expected = status(server, "GET", target)
    assert expected < 500
    assert status(edge, "GET", target) == expected


@pytest.mark.parametrize(
    "headers", ["X-Session-Id: \xff\xe9\r\n", "Host: [\r\n", "Host: a b\r\n", "X-Foo: a\x01b\r\n", "Cookie: \xff\r\n"]
)
@pytest.mark.parametrize(("method", "target"), [("POST", "/v1/audio/speech"), ("GET", "/v1/models")])
def test_headers_are_judged_as_one_server_judges_them(
    server: Running, edge: Running, headers: str, method: str, target: str
) -> None:
    body = b'{"input": "Hi."}' if method == "POST" else b""
    expected = status(server, method, target, JSON + headers, body)
    assert expected < 500
    assert status(edge, method, target, JSON + headers, body) == expected


@pytest.fixture(scope="module")
def edge_of_two(server: Running) -> Iterator[Running]:
    """An edge that reads the first message of a WebSocket, to choose a model."""
    with edge_before(Servers({"a": server.url}), ("dummy", "other")) as started:
        yield started


COMPLEX = '{"type":"session.config","references":[' + "1," * 140_000 + "1]}"
FIRST_MESSAGES = [
    *("", "null", "[]", "{}", "{", "\0", '{"type": null}', '{"type": []}', "[" * 100_000, COMPLEX, "x" * 5_000_000),
    *(f'{{"type": "session.config", "model": {value}}}' for value in ("null", "[]", "1e400", "NaN", '"\\ud800"', '""')),
    *(f'{{"type": "session.config", "voice": {value}}}' for value in ("[]", '"\\ud800"', '{"id": {}}')),
    '{"type": "session.config", "items": [{"model": "a"}, {"model": "b"}]}',
    '{"type": "session.config", "seed": ' + "9" * 5000 + "}",
    b"",
    b"\xff\xfe",
]


def said(url: str, first: str | bytes) -> list[object]:
    """What a client hears that begins so: errors, the number of bytes of audio, and why the connection ends."""
    heard: list[object] = []
    audio = 0
    with connect(f"ws{url.removeprefix('http')}/v1/audio/speech/stream", proxy=None) as conversation:
        try:
            conversation.send(first)
            for message in ({"type": "input.text", "text": "Hi."}, {"type": "input.done"}):
                conversation.send(json.dumps(message))
            for answer in conversation:
                audio += len(answer) if isinstance(answer, bytes) else 0
                about = {} if isinstance(answer, bytes) else json.loads(answer)
                heard += [about["error"]] if "error" in about else []
                if about.get("type") == "audio.done":
                    break
        except ConnectionClosed:
            pass
    return [*heard, audio, conversation.close_code]


@pytest.mark.parametrize("first", FIRST_MESSAGES, ids=range(len(FIRST_MESSAGES)))
def test_the_first_message_of_a_socket_is_judged_as_one_server_judges_it(
    server: Running, edge_of_two: Running, first: str | bytes, caplog: pytest.LogCaptureFixture
) -> None:
    if len(first) < 2**22:
        assert said(edge_of_two.url, first) == said(server.url, first)
    else:  # whether its end is read after a reset depends on the moment
        assert {said(edge_of_two.url, first)[-1], said(server.url, first)[-1]} <= {1006, 1009}
    ours = [record for record in caplog.records if not record.name.startswith("websockets.client")]
    assert not [record.getMessage() for record in ours if record.exc_info]


def spoken(url: str, kind: str, **headers: str) -> bytes:
    """What a client of ElevenLabs hears that ends its text."""
    address = f"ws{url.removeprefix('http')}{ELEVENLABS.format(kind=kind)}"
    messages = [{"text": " "}, {"text": "Hello "}, {"text": "there. ", "flush": True}, {"text": ""}]
    if kind.startswith("multi"):
        messages = [{"text": "Hello there.", "context_id": "c", "flush": True}, {"close_socket": True}]
    audio = b""
    with connect(address, proxy=None, additional_headers=headers) as conversation:
        for message in messages:
            conversation.send(json.dumps(message))
        for answer in conversation:
            audio += base64.b64decode(json.loads(answer).get("audio") or "")
    return audio


@pytest.mark.parametrize("kind", ["stream-input", "multi-stream-input"])
def test_sockets_of_elevenlabs_work_as_on_one_server(server: Running, edge: Running, kind: str) -> None:
    audio = spoken(edge.url, kind)
    assert len(audio) >= len("Hello there.") * LETTER_BYTES
    assert len(audio) == len(spoken(server.url, kind))


def test_a_key_of_elevenlabs_passes_the_edge(tmp_path) -> None:
    keys = {"api_keys": ["sk-one"]}
    with (
        in_thread("dummy", tmp_path, limits=LIMITS, edge_secret="secret-of-a", server=keys) as server,
        edge_before(Servers({"a": server.url}), **keys) as edge,
    ):
        assert spoken(edge.url, "stream-input", **{"xi-api-key": "sk-one"})
        with pytest.raises(InvalidStatus, match="401"):
            spoken(edge.url, "stream-input", **{"xi-api-key": "sk-two"})


def test_a_strange_socket_does_not_make_the_edge_distrust_its_replicas(edge: Running) -> None:
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    upgrade += f"Sec-WebSocket-Key: {'A' * 22}==\r\n"
    for target in ("/v1/text-to-speech/a#b/stream-input", "/v1/text-to-speech/%ff%00/stream-input?a=#", "/v1/%0d%0a"):
        assert status(edge, "GET", target, upgrade) < 500
    for protocol in ("a b", "\xff", ",,", '"x"'):
        answer = status(edge, "GET", "/v1/audio/speech/stream", f"{upgrade}Sec-WebSocket-Protocol: {protocol}\r\n")
        assert answer < 500
    assert edge.metric("rhapsode_edge_replicas") == 2
    assert edge.speak().status_code == 200


# --- clients of ElevenLabs ---


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("POST", "/v1/text-to-speech/low", {"text": "Hi."}, 200),
        ("POST", "/v1/text-to-speech/low/stream", {"text": "Hi.", "model_id": "eleven_v3"}, 200),
        ("POST", "/v1/text-to-speech/low", {"text": "Hi.", "model_id": "dummy"}, 200),
        ("POST", "/v1/text-to-speech/low", {"text": "Hi.", "model_id": "whisper"}, 404),
        ("POST", "/v1/text-to-speech/low", {"text": "Hi.", "model_id": ["dummy"]}, 400),
        ("POST", "/v1/text-to-speech/nobody", {"text": "Hi."}, 404),
        ("POST", "/v1/text-to-speech/21m00Tcm4TlvDq8ikWAM", {"text": "Hi."}, 200),
        ("POST", "/v1/text-to-dialogue", {"inputs": [{"text": "Hi.", "voice_id": "high"}], "model_id": "x"}, 404),
        ("POST", "/v1/text-to-dialogue/stream", {"inputs": [{"text": "Hi.", "voice_id": "high"}]}, 200),
        ("POST", "/v1/text-to-dialogue", {"inputs": 5}, 400),
        ("POST", "/v1/text-to-dialogue", [], 400),
        ("POST", "/v1/text-to-dialogue/with-timestamps", {"inputs": 5}, 400),
        ("POST", "/v1/text-to-dialogue/stream/with-timestamps", {"inputs": 5}, 400),
        ("GET", "/v1/user", None, 200),
        ("GET", "/v1/user/subscription", None, 200),
        ("GET", "/v1/voices", None, 200),
        ("GET", "/v2/voices", None, 200),
        ("GET", "/v1/history", None, 404),
        ("PUT", "/v1/voices/low", {}, 405),
        ("POST", "/v1/voices/add", {}, 415),
        ("DELETE", "/v1/voices/voice_0", None, 404),
    ],
)
def test_clients_of_elevenlabs_get_the_answers_of_one_server(
    server: Running, edge: Running, method: str, path: str, body: object, expected: int
) -> None:
    sent = b"" if body is None else json.dumps(body).encode()
    one, there = (answer(each, method, path, f"{JSON}xi-api-key: none\r\n", sent) for each in (server, edge))
    assert there[0] == one[0] == expected
    if expected != 200:
        assert there[1][1].keys() == one[1][1].keys() == {"status", "message"}


def test_lists_for_clients_of_elevenlabs_name_each_voice_and_model_once(server: Running, edge: Running) -> None:
    headers = {"xi-api-key": "none"}
    for path in ("/v1/voices", "/v1/models"):
        assert edge.http.get(path, headers=headers).json() == server.http.get(path, headers=headers).json()
