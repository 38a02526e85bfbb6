"""Uploads and messages that are never finished: nobody else is refused, and their memory returns."""

import base64
import io
import json
import os
import socket
import struct
import threading
import time
import wave
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import httpx2
import pytest

from e2e.serve.running import Running, running
from rhapsode.serve.memory import IDLE_S
from tiny.dummy import write

MIB = 2**20
LARGEST = 4 * MIB
OWN, OTHERS = "127.0.0.1", [f"127.0.0.{number}" for number in range(2, 18)]
GONE = (ConnectionResetError, BrokenPipeError)


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    """A server that clones, with room for four of the largest bodies."""
    folder = tmp_path_factory.mktemp("uploads")
    limits = {"max_concurrency": 16, "max_queue": 64, "max_positions": 1024}
    settings = {"max_body_bytes": LARGEST, "max_upload_bytes": LARGEST, "max_json_bytes": MIB}
    with running(write(folder / "checkpoint"), folder, limits=limits, server=settings) as started:
        yield started
        assert "Traceback" not in "".join(started.log)


def connected(server: Running, address: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=10, source_address=(address, 0))


def unfinished(server: Running, address: str, size: int) -> socket.socket:
    """An upload of so many bytes whose last one does not come."""
    raw = connected(server, address)
    head = "POST /v1/audio/detect HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
    with suppress(*GONE):  # it may be ended to make room
        raw.sendall(f"{head}Content-Length: {size}\r\n\r\n".encode())
        raw.sendall(bytes(size - 1))
    return raw


def opened(server: Running, address: str) -> socket.socket:
    """A WebSocket, by hand."""
    raw = connected(server, address)
    head = "GET /v1/audio/speech/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    raw.sendall(f"{head}Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
    assert b" 101 " in raw.recv(4096)
    return raw


def frame(data: bytes, opcode: int, *, final: bool = False) -> bytes:
    """A frame as a client sends it, with a mask of zeros."""
    size = len(data)
    length = bytes([0x80 | size]) if size < 126 else b"\xff" + struct.pack("!Q", size)
    return bytes([(0x80 if final else 0) | opcode]) + length + bytes(4) + data


MORE, TEXT, PING, PONG = 0, 1, 9, 10


def message(size: int, piece: int) -> bytes:
    """A fragmented message of so many bytes, without its last fragment."""
    return frame(b"x" * piece, TEXT) + frame(b"x" * piece, MORE) * (size // piece - 1)


def send(raw: socket.socket, data: bytes) -> socket.socket:
    with suppress(*GONE):
        raw.sendall(data)
    return raw


def closed_with(raw: socket.socket) -> int:
    """The code with which the server closes a WebSocket; 0 if its reset came before."""
    data = b""
    with suppress(*GONE):
        while piece := raw.recv(4096):
            data += piece
    at = data.rfind(b"\x88")
    return int.from_bytes(data[at + 2 : at + 4], "big") if at >= 0 else 0


@contextmanager
def held(sockets: list[socket.socket]) -> Iterator[None]:
    with ExitStack() as stack:
        for raw in sockets:
            stack.enter_context(raw)
        yield


def check_nobody_is_refused(server: Running, address: str, seconds: float = 1.0) -> None:
    """Everything that a client may send is taken, and `/health` answers quickly."""
    waited_s = []
    transport = httpx2.HTTPTransport(local_address=address)
    with httpx2.Client(base_url=server.url, timeout=30, transport=transport) as http:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            began_s = time.perf_counter()
            assert http.get("/health").status_code == 200
            waited_s.append(time.perf_counter() - began_s)
            answer = http.post("/v1/audio/speech", json={"input": "Hi.", "response_format": "pcm"})
            assert answer.status_code == 200, answer.text
            headers = {"Content-Type": "application/octet-stream"}
            answer = http.post("/v1/audio/detect", content=os.urandom(2**18), headers=headers)
            assert answer.status_code == 400, answer.text  # no audio
    assert sorted(waited_s)[len(waited_s) // 2] < 0.25


def memory(server: Running) -> float:
    return server.metric("process_resident_memory_bytes")


def check_memory_returns(server: Running, before: float) -> None:
    server.settle(timeout_s=20)
    until_s = time.monotonic() + 3
    while memory(server) - before > 40 * MIB:
        assert time.monotonic() < until_s, (memory(server) - before) / MIB
        time.sleep(0.1)


@pytest.mark.parametrize("honest", [OWN, pytest.param("127.0.0.200", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("addresses", "size"),
    [([OWN] * 4, LARGEST), (OTHERS[:4], LARGEST), ([OWN] * 64, MIB // 4), (OTHERS * 2, MIB // 2)],
    ids=["one client", "four clients", "small ones of one client", "small ones of many clients"],
)
def test_unfinished_uploads_refuse_nobody(server: Running, addresses: list[str], size: int, honest: str) -> None:
    before = memory(server)
    with held([unfinished(server, address, size) for address in addresses]):
        time.sleep(1.1 if size < LARGEST else 0.1)  # small ones make room when nothing of them has come for a second
        check_nobody_is_refused(server, honest)
        assert memory(server) - before < 60 * MIB
    check_memory_returns(server, before)


def test_the_memory_of_uploads_returns_although_nobody_speaks(server: Running) -> None:
    server.speak("Hi.")
    time.sleep(2 + IDLE_S)  # what the start has left is given back
    before = memory(server)
    with held([unfinished(server, address, LARGEST) for address in OTHERS[:4]]):
        until_s = time.monotonic() + 10
        while memory(server) - before < 14 * MIB:
            assert time.monotonic() < until_s
            time.sleep(0.05)
    until_s = time.monotonic() + 10
    while memory(server) - before > 6 * MIB:
        assert time.monotonic() < until_s, (memory(server) - before) / MIB
        time.sleep(0.1)


@pytest.mark.parametrize("honest", [OWN, "127.0.0.200"])
@pytest.mark.parametrize("address", [OWN, OTHERS[0]])
def test_unfinished_messages_of_sockets_refuse_nobody(server: Running, address: str, honest: str) -> None:
    before = memory(server)
    with held([send(opened(server, address), message(LARGEST // 2, 2**14)) for _ in range(32)]):
        time.sleep(1.1)  # those of the same client make room when nothing of them has come for a second
        check_nobody_is_refused(server, honest)
        assert memory(server) - before < 60 * MIB
    check_memory_returns(server, before)


@pytest.mark.parametrize(
    "tiny",
    [frame(b"x", MORE), frame(b"", MORE), frame(b"", PING, final=True), frame(b"", PONG, final=True)],
    ids=["fragments", "empty fragments", "pings", "pongs"],
)
def test_frames_of_a_byte_cost_no_memory_and_little_time(server: Running, tiny: bytes) -> None:
    before, cpu_s = memory(server), server.metric("process_cpu_seconds_total")
    for _ in range(4):
        with opened(server, OWN) as raw:
            send(raw, frame(b"x", TEXT) + tiny * 1_000_000)
            assert closed_with(raw) in (0, 1008)
    assert server.metric("process_cpu_seconds_total") - cpu_s < 2  # 28 where all frames are read
    check_memory_returns(server, before)


def test_pings_of_a_client_that_does_not_read_are_not_answered_for_ever(server: Running) -> None:
    before = memory(server)
    with held([raw := opened(server, OWN)]):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(0.5)
        with suppress(TimeoutError, *GONE):
            for _ in range(4000):
                raw.sendall(frame(bytes(125), 9, final=True) * 16)
                time.sleep(0.0001)
        assert memory(server) - before < 4 * MIB


def whole_body(server: Running, address: str, size: int) -> socket.socket:
    """A complete request for speech with so many bytes, whose client does not read its answer."""
    raw = connected(server, address)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    body = json.dumps({"input": "x" * 2000, "response_format": "pcm", "sample_rate": 192_000}).encode()
    head = "POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return send(raw, f"{head}Content-Length: {size}\r\n\r\n".encode() + body.rjust(size))


def test_complete_bodies_of_clients_who_do_not_read_their_answers_refuse_nobody(server: Running) -> None:
    before = memory(server)
    with held([whole_body(server, address, LARGEST) for address in OTHERS[:2] * 2]):
        deadline_s = time.monotonic() + 10
        while server.metric("rhapsode_slots_in_use") < 4:
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        check_nobody_is_refused(server, OWN)
    check_memory_returns(server, before)


def test_a_socket_does_not_keep_the_message_that_brought_its_reference(server: Running) -> None:
    clip = io.BytesIO()
    with wave.open(clip, "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(os.urandom(32_000))
    beside = bytes(2 * MIB)  # a chunk that no decoder needs
    data = clip.getvalue() + b"LIST" + len(beside).to_bytes(4, "little") + beside
    url = "data:audio/wav;base64," + base64.b64encode(data).decode()
    update = json.dumps({"type": "session.update", "ref_audio": url, "ref_text": "Hi."}).encode()
    before = memory(server)
    with ExitStack() as stack:
        for _ in range(24):
            raw = stack.enter_context(opened(server, OWN))
            raw.sendall(frame(update, TEXT, final=True))
            assert b"session.updated" in raw.recv(4096)
        assert memory(server) - before < 40 * MIB  # 24 messages have 68


def test_the_memory_of_unfinished_frames_returns_although_nobody_speaks(server: Running) -> None:
    server.speak("Hi.")
    time.sleep(2 + IDLE_S)  # what the start has left is given back
    before = memory(server)
    part = frame(bytes(MIB - 2**14), TEXT, final=True)[:-1]
    with held([send(opened(server, OTHERS[number % 4]), part) for number in range(16)]):
        time.sleep(0.5)
    until_s = time.monotonic() + 10
    while memory(server) - before > 6 * MIB:
        assert time.monotonic() < until_s, (memory(server) - before) / MIB
        time.sleep(0.1)


def test_a_large_message_is_taken_only_where_a_reference_may_come(server: Running) -> None:
    reference = json.dumps({"type": "session.config", "ref_audio": "data:audio/wav;base64," + "A" * 2 * MIB}).encode()
    with held([raw := opened(server, OWN)]):
        raw.sendall(frame(reference, TEXT, final=True))
        answer = raw.recv(4096)
        assert b'"error"' in answer
        raw.sendall(frame(b'{"type": "input.text", "text": "Hi"}', TEXT, final=True))
        raw.sendall(frame(b'{"type": "nonsense"}', TEXT, final=True))
        answers = b""
        while b"no message of this type" not in answers:  # once it is there, the text before it has been read
            answer = raw.recv(4096)
            assert answer
            answers += answer
        send(raw, frame(reference, TEXT, final=True))
        assert closed_with(raw) in (0, 1009)


@pytest.mark.slow
@pytest.mark.parametrize("addresses", [[OWN] * 4, OTHERS[:4]], ids=["one client", "four clients"])
def test_unfinished_uploads_of_the_usual_size_refuse_nobody_and_delay_no_health(tmp_path, addresses: list[str]) -> None:
    largest = 40 * MIB
    with running(write(tmp_path / "checkpoint"), tmp_path, limits={"max_positions": 1024}) as server:
        server.speak("Hi.")
        before = memory(server)
        waited_s: list[float] = []
        arrived = threading.Event()

        def ask() -> None:
            with httpx2.Client(base_url=server.url, timeout=30) as http:
                while not arrived.is_set() or len(waited_s) < 200:
                    began_s = time.perf_counter()
                    assert http.get("/health").status_code == 200
                    waited_s.append(time.perf_counter() - began_s)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            uploads = [unfinished(server, address, largest) for address in addresses]
        finally:
            arrived.set()
            asking.join()
        with held(uploads):
            check_nobody_is_refused(server, OWN)
            check_nobody_is_refused(server, "127.0.0.200")
        assert sorted(waited_s)[-1 - len(waited_s) // 100] < 0.25
        check_memory_returns(server, before)
