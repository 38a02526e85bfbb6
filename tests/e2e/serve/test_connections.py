"""Connections whose clients do nothing more: each of them ends."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from e2e.serve.running import Running, running

LIMIT_S = 3.0
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
UNKNOWN = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"


@pytest.fixture(scope="module", params=[True, False], ids=["asyncio", "uvloop"])
def server(tmp_path_factory, request) -> Iterator[Running]:
    settings = {"debug": request.param, "max_request_s": LIMIT_S, "receive_timeout_s": LIMIT_S, "keep_alive_s": LIMIT_S}
    with running("dummy", tmp_path_factory.mktemp("connections"), server=settings) as started:
        yield started
        assert "Traceback" not in "".join(started.log)


def connected(server: Running) -> socket.socket:
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.settimeout(20)
    raw.connect(("127.0.0.1", server.port))
    return raw


def is_over(raw: socket.socket) -> bool:
    try:
        return raw.recv(2**16) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    ("first", "then"),
    [(b"", b""), (b"", b"\r\n\r\n"), (GET, b""), (GET, b"\r\n\r"), (GET, b"GET"), (UNKNOWN, b"body"), (UNKNOWN, b"")],
    ids=["silence", "blank lines", "an answer", "part of a blank line", "part of a request", "a late body", "no body"],
)
def test_a_client_that_falls_silent_is_disconnected(server: Running, first: bytes, then: bytes) -> None:
    with connected(server) as raw:
        raw.sendall(first)
        if first:
            assert raw.recv(2**16).startswith(b"HTTP/1.1 ")
        raw.sendall(then)
        raw.settimeout(4 * LIMIT_S)
        while not is_over(raw):
            pass


def whole(letters: int) -> bytes:
    body = json.dumps({"input": "x" * letters, "response_format": "pcm", "stream": False}).encode()
    head = "POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize("end", ["waits", "sends nonsense", "says that it sends no more"])
def test_a_connection_that_is_closed_ends_although_its_client_does_not_read(server: Running, end: str) -> None:
    """Its last bytes fit into the buffer of the server, and no longer into that of the kernel."""
    before = server.metric("process_open_fds")
    with ExitStack() as stack:
        held = [stack.enter_context(connected(server)) for _ in range(12)]
        for number, raw in enumerate(held):
            raw.sendall(whole(50 + 5 * number))
        server.settle()
        for raw in held:
            with suppress(OSError):  # the server may have ended it by now
                if end == "sends nonsense":
                    raw.sendall(b"nonsense\r\n\r\n")
                elif end == "says that it sends no more":
                    raw.shutdown(socket.SHUT_WR)
        deadline_s = time.monotonic() + 20
        while server.metric("process_open_fds") > before:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
