"""Clients of ElevenLabs that mean harm, against a server in a process of its own: its event loop is watched."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from e2e.serve.running import Running, running
from tiny.dummy import write

LIMITS = {"max_concurrency": 8, "max_queue": 64, "max_positions": 1024, "max_text_chars": 20_000}
KEY = {"xi-api-key": "none"}
JSON = KEY | {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("hostile")
    with running(write(folder / "checkpoint"), folder, limits=LIMITS) as started:
        yield started  # callbacks are judged in the end
        assert "Traceback" not in "".join(started.log)


def status_of(server: Running, path: str, body: bytes) -> int:
    return server.http.post(path, content=body, headers=JSON).status_code


@pytest.mark.parametrize("path", ["/v1/text-to-dialogue", "/v1/text-to-dialogue/stream", "/v1/text-to-speech/low"])
def test_bodies_that_are_large_or_deep_are_refused(server: Running, path: str) -> None:
    part = b'{"text": "Hi.", "voice_id": "low"},'
    lone = b'{"text": "\\ud800", "voice_id": "\\udfff"}'
    bodies = [
        b'{"inputs": [' + part * 10_000 + b"0]}",
        b'{"inputs": [' + b"[" * 500_000,
        b'{"inputs": [' + b"{}," * 1_000_000 + b"{}]}",
        b'{"inputs": [' + lone + b'], "text": "\\ud800"}',
        b'{"inputs": 1e400, "text": 1e400}',
        b'{"inputs": {"0": ' + part[:-1] + b'}, "text": {}}',
        b'{"text": "' + b"x" * 3_000_000 + b'", "inputs": [{"text": "' + b"x" * 900_000 + b'", "voice_id": "low"}]}',
        b"\xff" * 1000,
        b"null",
        b"",
    ]
    with ThreadPoolExecutor(5) as threads:
        found = list(threads.map(lambda body: status_of(server, path, body), bodies))
    assert set(found) <= {400, 413}, found


def test_forms_that_are_no_forms_are_refused(server: Running) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n\r\n'
    bodies = [b"", b"--x--\r\n", part * 5000, part + b"--x--\r\n", b"--x\r\n" * 100_000, b"\x00" * 1_000_000]
    for body in bodies:
        headers = KEY | {"Content-Type": "multipart/form-data; boundary=x"}
        answer = server.http.post("/v1/voices/add", content=body, headers=headers)
        assert answer.status_code == 400, (body[:20], answer.text)
        assert answer.json()["detail"].keys() == {"status", "message"}


@pytest.mark.parametrize("text", ["Hello there. " * 10, "a" * 150, "a " * 75, "\ud800" * 150, "1 " * 75])
def test_alignments_of_strange_texts_block_nobody(server: Running, text: str) -> None:
    path = "/v1/text-to-speech/low/stream-input?output_format=pcm_16000&sync_alignment=true"

    def speak(_: int) -> int | None:
        with connect(f"ws{server.url.removeprefix('http')}{path}", proxy=None) as socket:
            try:
                socket.send(json.dumps({"text": text}))
                socket.send(json.dumps({"text": ""}))
                while True:
                    socket.recv(timeout=60)
            except ConnectionClosed:
                return socket.close_code

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(speak, range(4))) <= {1000, 1008}
    server.settle()
