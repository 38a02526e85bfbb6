"""Clients that ask for audio and never read it: they hold little, delay nobody, and are closed in the end."""

import asyncio
import json
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.sync.client import connect

from e2e.serve.running import Running, in_thread, running

MIB = 2**20
ROOM = {"max_concurrency": 64, "max_queue": 400, "max_text_chars": 5000, "max_positions": 4096}
RATE = 192_000
SECONDS = 160  # of the dummy's 2000 letters


def ask(port: int, **fields) -> socket.socket:
    """A request whose answer nobody reads; the kernel takes little of it."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.settimeout(10)
    raw.connect(("127.0.0.1", port))
    body = json.dumps({"input": "x" * 2000, "response_format": "pcm", "sample_rate": RATE, **fields}).encode()
    head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    raw.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return raw


def reset(raw: socket.socket) -> None:
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()


def is_closed(raw: socket.socket, within_s: float) -> bool:
    """Whether the other end has gone, found out without reading what it sent."""
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        state = raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        if state != 1:  # TCP_ESTABLISHED
            return True
        time.sleep(0.1)
    return False


def resident(server: Running) -> float:
    return server.metric("process_resident_memory_bytes")


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    with running("dummy", tmp_path_factory.mktemp("stalled"), limits=ROOM) as started:
        stall(started, clients=12, wait_s=0.5)  # what the first round needs, such as threads, is kept
        yield started


def stall(server: Running, clients: int, wait_s: float, **fields) -> tuple[float, list[float]]:
    """The growth of the server's memory after clients stalled and left, and how long others waited for an answer."""
    server.settle()
    before = resident(server)
    stalled = [ask(server.port, **fields) for _ in range(clients)]
    waited_s = []
    deadline_s = time.monotonic() + wait_s
    while time.monotonic() < deadline_s:
        started_s = time.perf_counter()
        server.http.get("/health")
        waited_s.append(time.perf_counter() - started_s)
        time.sleep(0.01)
    for raw in stalled:
        reset(raw)
    server.settle(timeout_s=30)
    deadline_s = time.monotonic() + 2  # an idle server returns what it has freed
    while resident(server) > before + 10 * MIB and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return resident(server) - before, waited_s


OTHERS = [{"response_format": "wav"}, {"speed": 1.1}]


@pytest.mark.parametrize(
    "fields", [{}, {"response_format": "flac"}, *(pytest.param(f, marks=pytest.mark.slow) for f in OTHERS)]
)
def test_clients_that_never_read_leave_nothing_behind_and_delay_nobody(server: Running, fields: dict) -> None:
    grown, waited_s = stall(server, clients=12, wait_s=1, **fields)
    assert grown < 40 * MIB
    assert sorted(waited_s)[len(waited_s) // 2] < 0.25
    server.check_callbacks()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_forty_clients_that_never_read_for_a_minute(server: Running) -> None:
    grown, waited_s = stall(server, clients=40, wait_s=60)
    assert grown < 40 * MIB  # what is made for forty listeners in a minute is 900
    assert sorted(waited_s)[int(0.99 * len(waited_s))] < 0.05
    server.check_callbacks()


@pytest.mark.slow
def test_a_client_that_never_reads_is_closed_when_its_time_is_over(tmp_path: Path) -> None:
    with in_thread("dummy", tmp_path, limits=ROOM, server={"max_request_s": 1.5}) as server:
        for fields in ({}, {"stream": False}, {"stream_format": "sse"}):
            with ask(server.port, input="x" * 200, **fields) as raw:  # made before its time is over
                assert is_closed(raw, within_s=20), fields
            server.settle()


@pytest.mark.slow
def test_a_client_that_reads_as_fast_as_it_plays_is_not_cut_off(tmp_path: Path) -> None:
    with in_thread("dummy", tmp_path, limits=ROOM, server={"max_request_s": 2.0}) as server:
        wish = {"input": "x" * 60, "response_format": "pcm", "sample_rate": RATE}  # 4.8 s
        with server.http.stream("POST", "/v1/audio/speech", json=wish) as answer:
            heard = 0
            started_s = time.monotonic()
            for part in answer.iter_raw(65_536):
                heard += len(part)
                time.sleep(max(0.0, heard / 2 / RATE / 1.5 - (time.monotonic() - started_s)))  # a little faster
        assert heard == pytest.approx(60 * 0.08 * RATE * 2, rel=0.01)


def test_a_socket_that_never_reads_is_closed(tmp_path: Path) -> None:
    with (
        in_thread("dummy", tmp_path, limits=ROOM, server={"max_request_s": 1.5}) as server,
        connect(server.socket_url, proxy=None, max_queue=1) as conversation,
    ):
        config = {"type": "session.config", "response_format": "pcm", "sample_rate": RATE}
        conversation.send(json.dumps(config))
        conversation.send(json.dumps({"type": "input.text", "text": "x" * 2000}))
        conversation.send(json.dumps({"type": "input.done"}))
        deadline_s = time.monotonic() + 20
        while server.metric("rhapsode_open_websockets"):
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        server.settle()


@pytest.mark.slow
def test_a_socket_that_only_asks_and_never_listens_is_closed(tmp_path: Path) -> None:
    with in_thread("dummy", tmp_path, limits=ROOM, server={"max_request_s": 1.5, "socket": {"idle_s": 1}}) as server:

        async def ask_for_errors() -> None:
            from websockets.asyncio.client import connect as connect_async

            async with connect_async(server.socket_url, proxy=None, max_queue=1) as conversation:
                async with asyncio.timeout(30):
                    while True:
                        await conversation.send("nonsense" * 1000)

        with pytest.raises(Exception, match=r"close|reset|broken") as ended:
            asyncio.run(ask_for_errors())
        assert not isinstance(ended.value, TimeoutError)
        server.settle()


def test_a_whole_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with in_thread("dummy", tmp_path, limits=ROOM, server={"max_whole_bytes": MIB}) as server:
        small = server.speak("x" * 30, response_format="wav", stream=False)
        assert small.status_code == 200
        large = server.speak("x" * 300, response_format="wav", stream=False, sample_rate=RATE)
        assert (large.status_code, large.json()["error"]["code"]) == (413, "audio_too_large")
        assert server.speak("x" * 300, response_format="mp3", stream=False).status_code == 200
        server.settle()
