"""Clients that take slots and never read, beside one that listens: it is heard soon. Who reads loses nothing."""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from websockets.frames import Frame, Opcode
from websockets.sync.client import connect

from e2e.serve.running import LETTER_S, Running, running

HEARD_S = 6.0  # 3 s on a machine of its own; other tests run beside these
SLOTS = 8
MANY = SLOTS + 4
PACKET_S = 0.02
RATE = 48_000  # bytes of a second, as `pcm` has 24 kHz
ROOM = {"max_concurrency": SLOTS, "max_queue": 32, "max_text_chars": 5000, "max_positions": 4096, "real_time": False}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    with running("dummy", tmp_path_factory.mktemp("fair"), limits=ROOM) as started:
        yield started


def open_socket(server: Running, source: str, buffer_bytes: int = 4096) -> socket.socket:
    """A connection whose client's kernel takes little that nobody reads."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing is noticed at once
    raw.settimeout(20)
    raw.bind((source, 0))
    raw.connect(("127.0.0.1", server.port))
    return raw


def post(server: Running, source: str, request_id: str = "", buffer_bytes: int = 4096, **fields) -> socket.socket:
    raw = open_socket(server, source, buffer_bytes)
    body = json.dumps({"input": "x" * 2000, "response_format": "pcm", **fields}).encode()
    head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
    head += f"X-Request-Id: {request_id}\r\n" if request_id else ""
    raw.sendall(f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    return raw


def converse(server: Running, source: str) -> socket.socket:
    """A WebSocket whose client says what to speak, and then nothing more."""
    raw = open_socket(server, source)
    key = (
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
        + "A" * 22
        + "=="
    )
    raw.sendall(f"GET /v1/audio/speech/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n{key}\r\n\r\n".encode())
    assert b" 101 " in raw.recv(4096)
    for message in (
        {"type": "session.config", "response_format": "pcm"},
        {"type": "input.text", "text": "x" * 2000},
        {"type": "input.done"},
    ):
        raw.sendall(Frame(Opcode.TEXT, json.dumps(message).encode()).serialize(mask=True))
    return raw


def first_audio_s(server: Running) -> float:
    started_s = time.monotonic()
    with server.http.stream("POST", "/v1/audio/speech", json={"input": "Hi.", "response_format": "pcm"}) as answer:
        assert answer.status_code == 200
        next(answer.iter_raw(1))
        return time.monotonic() - started_s


def await_load(server: Running, name: str, least: float) -> None:
    deadline_s = time.monotonic() + 20
    while server.metric(f"rhapsode_{name}") < least:
        assert time.monotonic() < deadline_s, f"{name} never was {least}"
        time.sleep(0.02)


Attack = Callable[[Running, int], socket.socket]


def attack_at_home(server: Running, number: int) -> socket.socket:
    """From the address of the one who listens."""
    return post(server, "127.0.0.1", stream_format="sse" if number % 2 else "audio")


def attack_from_elsewhere(server: Running, number: int) -> socket.socket:
    """From one other address, and each from its own."""
    kinds: list[Attack] = [
        lambda server, number: post(server, "127.0.0.2"),
        lambda server, number: post(server, f"127.0.1.{number + 1}", stream_format="sse"),
        lambda server, number: converse(server, "127.0.0.2"),
        lambda server, number: converse(server, f"127.0.1.{number + 1}"),
    ]
    return kinds[number % len(kinds)](server, number)


def listen_beside(server: Running, attack: Attack, heard_s: float = HEARD_S, many: int = MANY) -> None:
    server.settle()
    unread = server.metric("rhapsode_requests_total", outcome="unread")
    with ExitStack() as held:
        for number in range(many):
            held.enter_context(attack(server, number))
        await_load(server, "slots_in_use", SLOTS)
        assert first_audio_s(server) < heard_s
    assert server.metric("rhapsode_requests_total", outcome="unread") > unread


@pytest.mark.parametrize("attack", [attack_at_home, attack_from_elsewhere])
def test_beside_clients_that_never_read_a_listener_is_heard_soon(server: Running, attack: Attack) -> None:
    listen_beside(server, attack)


def test_a_sentence_waits_for_one_round_of_them_although_many_wait_already(server: Running) -> None:
    """They are of its own address, and came before it: each round of slots is lost after 2 s."""
    listen_beside(server, attack_at_home, many=4 * SLOTS)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["127.0.0.2", "127.0.1.{}"], ids=["one client", "forty clients"])
def test_forty_connections_that_never_read_keep_nobody_waiting(tmp_path: Path, source: str) -> None:
    with running("dummy", tmp_path, limits=ROOM | {"max_concurrency": 32, "max_queue": 64}) as server:
        with ExitStack() as held:
            for number in range(40):
                held.enter_context(post(server, source.format(number + 1)))
            await_load(server, "slots_in_use", 32)
            assert first_audio_s(server) < HEARD_S
        server.settle()


def test_it_is_also_heard_soon_where_the_engine_has_a_process_of_its_own(tmp_path: Path) -> None:
    with running("dummy", tmp_path, limits=ROOM, server={"engine_process": True}) as server:
        listen_beside(server, attack_from_elsewhere)


def test_a_client_whose_slot_was_taken_can_learn_why(server: Running) -> None:
    server.settle()
    with ExitStack() as held:
        raw = held.enter_context(post(server, "127.0.0.2", request_id="unread"))
        for _ in range(2 * SLOTS):
            held.enter_context(post(server, "127.0.0.2"))
        deadline_s = time.monotonic() + 20
        while (outcome := server.http.get("/v1/audio/speech/unread").json()).get("status", "running") == "running":
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        assert (outcome["status"], outcome["error"]["code"]) == ("failed", "not_read")
        with pytest.raises(ConnectionResetError):
            list(iter(lambda: raw.recv(2**16), b""))


def read_at_speed(raw: socket.socket, step_s: float, heard: list[int]) -> None:
    """Reads as a player does that plays from the first byte on, so many seconds at a time."""
    count, started_s = len(raw.recv(1024)), time.monotonic()
    heard.append(count)
    while True:
        time.sleep(step_s - (time.monotonic() - started_s) % step_s)
        due = round((time.monotonic() - started_s) * RATE) - count
        while due > 0:
            try:
                part = raw.recv(due)
            except ConnectionResetError:
                return
            if not part:
                return
            heard.append(len(part))
            count, due = count + len(part), due - len(part)


@pytest.mark.slow
def test_a_player_of_packets_in_json_keeps_its_slot(server: Running) -> None:
    """More than half of its messages is no audio."""
    server.settle()
    config = {"type": "session.config", "response_format": "opus_packets", "audio_transport": "base64"}
    with ExitStack() as held:
        raw = held.enter_context(open_socket(server, "127.0.0.1"))
        player = held.enter_context(connect(server.socket_url, sock=raw, proxy=None, max_queue=1, compression=None))
        for message in (config, {"type": "input.text", "text": "x" * 1500}, {"type": "input.done"}):
            player.send(json.dumps(message))
        played_s = 0.0
        while played_s < 6.0:
            message = json.loads(player.recv(timeout=20))
            assert message["type"] in ("audio.start", "audio.chunk"), message
            if message["type"] == "audio.start":
                began_s = time.monotonic()
                for number in range(2 * MANY):
                    held.enter_context(post(server, f"127.0.1.{number + 1}"))
            else:
                played_s += PACKET_S
                time.sleep(max(0.0, began_s + played_s - time.monotonic()))
    server.settle()


def hang_up(raw: socket.socket) -> None:
    with suppress(OSError):
        raw.shutdown(socket.SHUT_RDWR)


def test_clients_that_read_as_they_play_keep_their_slots_however_many_wait(server: Running) -> None:
    server.settle()
    assert 2000 * LETTER_S > 100  # more than the server makes in advance, so that the slots are held all the time
    with ExitStack() as held:
        players = []
        for step_s, buffer_bytes in ((0.05, 4096), (1.0, 2**16)):
            raw, heard = held.enter_context(post(server, "127.0.0.1", buffer_bytes=buffer_bytes)), []
            thread = threading.Thread(target=read_at_speed, args=(raw, step_s, heard))
            held.callback(thread.join)
            held.callback(hang_up, raw)
            players.append((heard, thread))
            thread.start()
        time.sleep(0.2)
        for number in range(MANY):
            held.enter_context(post(server, f"127.0.1.{number + 1}"))
        deadline_s = time.monotonic() + 6
        while time.monotonic() < deadline_s:
            assert first_audio_s(server) < HEARD_S + 4
            held.enter_context(post(server, "127.0.0.3"))
            time.sleep(0.2)
        for heard, thread in players:
            assert thread.is_alive()
            assert sum(heard) > 4 * RATE
    server.settle()
