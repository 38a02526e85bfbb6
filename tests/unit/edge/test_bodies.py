"""Bodies at the edge: they refuse nobody once a replica has them, and are kept as long as another may need them."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from e2e.serve.running import Running
from rhapsode.config.cluster import read_cluster
from rhapsode.edge.body import HeldBody
from rhapsode.edge.edge import Edge
from rhapsode.edge.fleet import Fleet, ModelFleet
from rhapsode.errors import Busy
from rhapsode.serve.budget import Budget
from rhapsode.serve.middleware.limits import CountedBody
from unit.edge.test_edge import GONE, Servers, edge_before

LARGEST = 2**19
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FULL = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\n{}"


class Replica:
    """Takes bodies. It answers small ones at once, and large ones when it is told to."""

    def __init__(self, large: bytes = OK) -> None:
        self.large = large
        self.answer = threading.Event()
        self.taken: list[int] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, raw: socket.socket) -> None:
        with raw, raw.makefile("rb") as lines, suppress(OSError):
            while head := lines.readline():
                size = 0
                while (head := lines.readline().lower()) != b"\r\n":
                    size = int(head.split(b":")[1]) if head.startswith(b"content-length") else size
                left = size
                while left:
                    left -= len(lines.read(min(left, 2**16)))
                self.taken.append(size)
                if size > 1000:
                    self.answer.wait(60)
                raw.sendall(self.large if size > 1000 else OK)

    def close(self) -> None:
        self.answer.set()
        self._listener.close()


@pytest.fixture
def replica() -> Iterator[Replica]:
    made = Replica()
    yield made
    made.close()


def post(edge: Running, address: str, size: int) -> socket.socket:
    raw = socket.create_connection(("127.0.0.1", edge.port), timeout=30, source_address=(address, 0))
    head = "POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    raw.sendall(f"{head}Content-Length: {size}\r\n\r\n".encode() + b'{"input": "Hi.", "stream": false}'.ljust(size))
    return raw


def status(raw: socket.socket) -> int:
    with raw:
        return int(raw.recv(4096).split()[1])


def until(condition) -> None:
    deadline_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_bodies_whose_answers_take_long_refuse_nobody(replica: Replica) -> None:
    with edge_before(Servers({"a": replica.url}), max_body_bytes=LARGEST) as edge, ExitStack() as stack:
        held = [post(edge, f"127.0.0.{number}", LARGEST) for number in (2, 2, 3, 3)]
        for raw in held:
            stack.enter_context(raw)
        until(lambda: replica.taken.count(LARGEST) == 4)
        assert status(post(edge, "127.0.0.4", 100)) == 200
        assert status(post(edge, "127.0.0.2", 100)) == 200
        stack.enter_context(last := post(edge, "127.0.0.4", LARGEST))
        until(lambda: replica.taken.count(LARGEST) == 5)
        replica.answer.set()
        assert [status(raw) for raw in (*held, last)] == [200] * 5  # a body that was given up was not needed


def test_a_body_is_sent_again_while_there_is_room_for_it(replica: Replica) -> None:
    full = Replica(FULL)
    full.answer.set()
    try:
        with edge_before(Servers({"a": GONE, "b": full.url, "c": replica.url}), max_body_bytes=LARGEST) as edge:
            replica.answer.set()
            assert status(post(edge, "127.0.0.2", LARGEST)) == 200
            assert replica.taken == full.taken == [LARGEST]
    finally:
        full.close()


def test_a_body_that_was_given_up_cannot_be_sent() -> None:
    def held(client: str) -> tuple[HeldBody, CountedBody]:
        counted = CountedBody()
        counted.account = budget.open(client, lambda: None)
        counted.account.hold(60)
        counted.keep()
        return HeldBody(bytes(60), counted), counted

    budget = Budget(120, "tests", 60)
    first, _ = held("a")
    second, _ = held("b")
    with pytest.raises(Busy):
        held("c")
    first.begin()
    second.begin()
    second.sent()
    third, counted = held("c")
    assert (first.is_lost, second.is_lost, third.is_lost) == (False, True, False)
    with pytest.raises(Busy):
        second.begin()
    third.drop()
    assert third.is_lost
    assert counted.account is not None
    assert not counted.account.held


@pytest.mark.parametrize(
    ("path", "may_come"),
    [
        ("/v1/audio/speech/stream", True),
        ("/v1/text-to-speech/low/stream-input", False),
        ("/v1/text-to-speech/low/multi-stream-input", False),
    ],
)
def test_messages_may_be_as_large_as_a_recording_only_where_one_may_come(path: str, may_come: bool) -> None:
    async def run() -> None:
        allowed: list[bool] = []
        scope = {
            "type": "websocket",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "extensions": {"websocket.http.response": {}},
        }
        state = {"expect_reference": allowed.append}

        async def receive() -> dict:
            return {"type": "websocket.connect"}

        async def send(message: dict) -> None:
            return None

        config = read_cluster({"models": {"dummy": {"deployment": {"model": "dummy"}}}, "cold_start_s": 0.05}, env={})
        fleet = Fleet({"dummy": ModelFleet("dummy", Servers({}), 0.05, 1)})
        edge = Edge(config, fleet)
        await edge({**scope, "headers": [], "state": state}, receive, send)
        await fleet.stop()
        assert set(allowed) == {may_come}

    asyncio.run(run())
