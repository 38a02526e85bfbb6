"""Connections that wait for their next request: how long they stay open, and who makes room for whom."""

import json
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from e2e.serve.running import Running, running

MOST = 8
KEEP_ALIVE_S = 4.0
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module", params=[True, False], ids=["asyncio", "uvloop"])
def server(tmp_path_factory, request) -> Iterator[Running]:
    settings = {"debug": request.param, "max_connections": MOST, "keep_alive_s": KEEP_ALIVE_S, "receive_timeout_s": 60}
    with running("dummy", tmp_path_factory.mktemp("keep-alive"), server=settings) as started:
        yield started
        assert "Traceback" not in "".join(started.log)
        started.log.clear()


def connected(server: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def asks(raw: socket.socket, request: bytes = GET) -> bytes:
    """The answer to one request; empty once the connection is closed."""
    try:
        raw.sendall(request)
        head, _, body = raw.recv(2**16).partition(b"\r\n\r\n")
    except (ConnectionResetError, BrokenPipeError):
        return b""
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += raw.recv(2**16)
    return head


def is_open(raw: socket.socket) -> bool:
    readable, _, _ = select.select([raw], [], [], 0)
    return not readable or bool(raw.recv(1, socket.MSG_PEEK))


def speech(letters: int) -> bytes:
    body = json.dumps({"input": "x" * letters, "response_format": "pcm"}).encode()
    head = "POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def test_an_idle_connection_is_used_again_until_its_time_is_over(server: Running) -> None:
    with connected(server) as raw:
        for _ in range(2):
            assert asks(raw).startswith(b"HTTP/1.1 200")
            time.sleep(0.6 * KEEP_ALIVE_S)
        begun_s = time.monotonic()
        assert asks(raw).startswith(b"HTTP/1.1 200")
        assert raw.recv(1) == b""
        assert time.monotonic() - begun_s == pytest.approx(KEEP_ALIVE_S, abs=0.3 * KEEP_ALIVE_S)


def test_the_oldest_idle_connection_makes_room(server: Running) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(connected(server)) for _ in range(MOST)]
        for raw in (*held[2:], *held[:2]):
            assert asks(raw).startswith(b"HTTP/1.1 200")
        for count in range(1, 4):
            assert asks(stack.enter_context(connected(server))).startswith(b"HTTP/1.1 200")
            closed = [number for number, raw in enumerate(held) if not is_open(raw)]
            assert closed == [2, 3, 4][:count]


def test_a_busy_connection_is_never_closed_for_another(server: Running) -> None:
    """Neither one that listens, nor one that has sent a part of its request."""
    with ExitStack() as stack:
        listening, sending = (stack.enter_context(connected(server)) for _ in range(2))
        listening.sendall(speech(60))
        sending.sendall(GET[:20])
        heard = listening.recv(2**16)
        assert heard.startswith(b"HTTP/1.1 200")
        flood = [stack.enter_context(connected(server)) for _ in range(10 * MOST)]
        assert asks(flood[-1]).startswith(b"HTTP/1.1 200")
        assert asks(sending, GET[20:]).startswith(b"HTTP/1.1 200")
        while not heard.endswith(b"\r\n0\r\n\r\n"):
            received = listening.recv(2**16)
            assert received
            heard += received


def test_without_an_idle_connection_a_new_one_is_reset(server: Running) -> None:
    with ExitStack() as stack:
        busy = [stack.enter_context(connected(server)) for _ in range(MOST)]
        for raw in busy:
            assert asks(raw).startswith(b"HTTP/1.1 200")  # the server has accepted it
        for raw in busy:
            raw.sendall(GET[:20])
        assert asks(stack.enter_context(connected(server))) == b""
        assert [asks(raw, GET[20:])[:12] for raw in busy] == [b"HTTP/1.1 200"] * MOST


def test_answers_that_are_still_read_are_not_cut(server: Running) -> None:
    """The answer is complete for the server, but waits in its buffers for a client that reads slowly."""
    body = json.dumps({"input": "x" * 60, "response_format": "pcm", "stream": False}).encode()
    head = "POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with ExitStack() as stack, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(20)
        slow.connect(("127.0.0.1", server.port))
        slow.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(1.0)
        flood = [stack.enter_context(connected(server)) for _ in range(3 * MOST)]
        assert asks(flood[-1]).startswith(b"HTTP/1.1 200")
        received = b""
        while len(received) < 60 * 2 * 1280:
            received += (piece := slow.recv(2**16))
            assert piece, len(received)


def test_a_flood_of_idle_connections_keeps_nobody_out_and_leaves_nothing(server: Running) -> None:
    with ExitStack() as stack:
        for _ in range(20):
            for _ in range(5 * MOST):
                stack.enter_context(connected(server))
            assert asks(stack.enter_context(connected(server))).startswith(b"HTTP/1.1 200")
    deadline_s = time.monotonic() + 10
    with connected(server) as raw:
        while True:
            raw.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            page = b""
            while b"process_open_fds" not in page or not page.endswith(b"\n"):
                page += raw.recv(2**16)
            found = next(line for line in page.splitlines() if line.startswith(b"process_open_fds "))
            if float(found.split()[1]) < 60:
                return
            assert time.monotonic() < deadline_s, found
            time.sleep(0.2)


@pytest.mark.slow
def test_a_connection_survives_a_minute_by_default(tmp_path) -> None:
    with running("dummy", tmp_path) as server, connected(server) as raw:
        assert asks(raw).startswith(b"HTTP/1.1 200")
        time.sleep(60)
        assert asks(raw).startswith(b"HTTP/1.1 200")
