"""Requests that are sent before the last one is answered: they wait, cost little, and hide no disconnect."""

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from e2e.serve.running import Running, running

MIB = 2**20
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
ROOM = {"max_concurrency": 16, "max_queue": 64, "max_text_chars": 5000, "max_positions": 4096}


@pytest.fixture(scope="module", params=[True, False], ids=["asyncio", "uvloop"])
def server(tmp_path_factory, request) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("pipelining")
    with running("dummy", folder, limits=ROOM, server={"debug": request.param}) as started:
        yield started
        assert "Traceback" not in "".join(started.log)


def connected(server: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def speech(text: str) -> bytes:
    body = json.dumps({"input": text, "response_format": "pcm", "sample_rate": 192_000}).encode()
    head = "POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def chunked(*pieces: bytes, trailers: bytes = b"") -> bytes:
    head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n" + trailers + b"\r\n"


def answers(raw: socket.socket, count: int) -> list[int]:
    """The statuses of so many answers that come on one connection; each body ends with what ends it."""
    got = b""
    while got.count(b"HTTP/1.1 ") < count or not got.endswith((b"}", b"0\r\n\r\n")):
        piece = raw.recv(2**16)
        assert piece, got[-300:]
        got += piece
    return [int(part[:3]) for part in got.split(b"HTTP/1.1 ")[1:]]


def send_slowly(raw: socket.socket, data: bytes, times: int) -> None:
    for _ in range(times):
        raw.sendall(data)
        time.sleep(0.01)


def reset(raw: socket.socket) -> None:
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()


@pytest.mark.parametrize(
    "first",
    [
        GET,
        speech("Hi."),
        chunked(b'{"input": "Hi.",', b' "response_format": "pcm"}'),
        chunked(*(bytes([byte]) for byte in b'{"input": "Hi.",\n\r\n\n\r\n"response_format": "pcm"}')),
        chunked(b'{"input": "Hi."', b"}", trailers=b"X-Digest: 1\r\n"),
        GET.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"),
    ],
    ids=["get", "length", "chunked", "blank lines in tiny chunks", "trailers", "an upgrade to HTTP/2 is declined"],
)
@pytest.mark.parametrize("step", [1, 7, 2**16])
def test_each_request_of_a_pipeline_is_answered_in_turn(server: Running, first: bytes, step: int) -> None:
    with connected(server) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        whole = first + GET + first + GET + GET
        for start in range(0, len(whole), step):
            raw.sendall(whole[start : start + step])
        assert answers(raw, 5) == [200] * 5


def test_thousands_of_requests_behind_a_running_one_end_the_connection_and_leave_nothing(server: Running) -> None:
    server.settle()
    before = server.metric("process_resident_memory_bytes")
    held = [connected(server) for _ in range(8)]
    for raw in held:
        raw.sendall(speech("x" * 2000))
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            send_slowly(raw, GET * 2**10, 2**6)
    server.settle()
    assert server.metric("process_resident_memory_bytes") - before < 20 * MIB
    for raw in held:
        raw.close()


@pytest.mark.parametrize("ahead", [0, 1, 1000])
def test_a_disconnect_is_noticed_behind_requests_that_wait(server: Running, ahead: int) -> None:
    with connected(server) as raw:
        raw.sendall(speech("x" * 2000) + GET * ahead)
        assert raw.recv(1000).startswith(b"HTTP/1.1 200")
        assert server.metric("rhapsode_slots_in_use") == 1
        reset(raw)
        server.settle(timeout_s=2)


@pytest.mark.parametrize("end", [reset, socket.socket.close, lambda raw: raw.shutdown(socket.SHUT_WR)])
def test_a_pipelined_connection_that_closes_leaves_no_traceback(server: Running, end: Callable) -> None:
    for behind in (b"", GET, GET * 100, GET[:20]):
        for first in (speech("x" * 200), GET):
            raw = connected(server)
            raw.sendall(first + behind)
            end(raw)
            raw.close()
    server.settle()
    assert server.speak("Hi.").status_code == 200
    assert "Traceback" not in "".join(server.log)


@pytest.mark.parametrize(
    "endless",
    [
        b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 2**15,
        b"GET /health HTTP/1.1\r\nA: " + b"b" * 2**17,
        b"GET /" + b"a" * 2**17,
        chunked(b"{}", trailers=b"A: " + b"b" * 2**17),
        b"\r\n" * 2**16,
    ],
    ids=["headers", "a header", "a path", "a trailer", "nothing"],
)
def test_headers_without_end_are_refused(server: Running, endless: bytes) -> None:
    with connected(server) as raw, suppress(ConnectionResetError, BrokenPipeError):
        for start in range(0, len(endless), 2**12):
            raw.sendall(endless[start : start + 2**12])
        answered = b""
        while piece := raw.recv(2**12):
            answered += piece
        assert b" 400 " in answered
    assert server.speak("Hi.").status_code == 200
