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


SILENT = {
    "silence": (b"", b""),
    "blank lines": (b"", b"\r\n\r\n"),
    "an answer": (GET, b""),
    "part of a blank line": (GET, b"\r\n\r"),
    "part of a request": (GET, b"GET"),
    "a late body": (UNKNOWN, b"body"),
    "no body": (UNKNOWN, b""),
}


def test_clients_that_fall_silent_are_disconnected(server: Running) -> None:
    with ExitStack() as stack:
        held = {name: stack.enter_context(connected(server)) for name in SILENT}
        for name, (first, then) in SILENT.items():
            held[name].sendall(first)
            if first:
                assert held[name].recv(2**16).startswith(b"HTTP/1.1 ")
            held[name].sendall(then)
        deadline_s = time.monotonic() + 4 * LIMIT_S
        for name, raw in held.items():
            raw.settimeout(max(0.1, deadline_s - time.monotonic()))
            try:
                while not is_over(raw):
                    pass
            except TimeoutError:
                pytest.fail(f"still open after {name}")


def whole(letters: int) -> bytes:
    body = json.dumps({"input": "x" * letters, "response_format": "pcm", "stream": False}).encode()
    head = "POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def test_connections_that_are_closed_end_although_their_clients_do_not_read(server: Running) -> None:
    """Their last bytes fit into the buffer of the server, and no longer into that of the kernel. A client waits, sends
    nonsense, or says that it sends no more."""
    before = server.metric("process_open_fds")
    with ExitStack() as stack:
        held = [stack.enter_context(connected(server)) for _ in range(18)]
        for number, raw in enumerate(held):
            raw.sendall(whole(50 + 10 * (number // 3)))
        server.settle()
        for number, raw in enumerate(held):
            with suppress(OSError):  # the server may have ended it by now
                if number % 3 == 1:
                    raw.sendall(b"nonsense\r\n\r\n")
                elif number % 3 == 2:
                    raw.shutdown(socket.SHUT_WR)
        deadline_s = time.monotonic() + 20
        while server.metric("process_open_fds") > before:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
