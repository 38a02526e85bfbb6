"""The edge in front of real servers, without Ray: a stand-in for it says which servers there are."""

import asyncio
import json
import select
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx2
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from e2e.serve import test_fair, test_uploads
from e2e.serve.running import Running, in_thread
from rhapsode.config.cluster import read_cluster
from rhapsode.edge import buffers
from rhapsode.edge.edge import Edge
from rhapsode.edge.fleet import Fleet, ModelFleet
from rhapsode.edge.report import ReplicaReport
from rhapsode.edge.server import EdgeServer
from rhapsode.serve.ports import listen
from tiny.dummy import write

LIMITS = {"max_concurrency": 4, "max_positions": 1024}
IN_BUFFERS_S = 1.0
"""Of what the edge reads from a replica, and its client does not."""
GONE = "http://127.0.0.1:9"


class Servers:
    """Says which servers there are, as Ray does."""

    def __init__(self, urls: dict[str, str]) -> None:
        self.urls = urls
        self.woken = threading.Event()

    async def reports(self) -> list[ReplicaReport]:
        about = (0, 4, ("low", "high"), True)
        return [ReplicaReport(name, url, *about, secret=f"secret-of-{name}") for name, url in self.urls.items()]

    async def wake(self) -> bool:
        self.woken.set()
        while not self.urls:
            await asyncio.sleep(0.05)
        return True


@contextmanager
def edge_before(
    servers: Servers, names: Sequence[str] = ("dummy",), others: Mapping[str, Servers] | None = None, **server
) -> Iterator[Running]:
    """An edge; the same servers have models of all these names, but those of `others`."""
    models = {name: {"deployment": {"model": "dummy"}} for name in names}
    config = read_cluster({"models": models, "server": server, "cold_start_s": 5, "max_waiting": 1}, env={})
    sources = dict.fromkeys(names, servers) | dict(others or {})
    fleets = {name: ModelFleet(name, sources[name], config.cold_start_s, config.max_waiting) for name in names}
    edge = Edge(config, Fleet(fleets))
    listener = listen("127.0.0.1", 0)
    buffers.to_clients(listener)
    uvicorn_server = EdgeServer(edge, config)
    thread = threading.Thread(target=uvicorn_server.run, args=([listener],))
    thread.start()
    running = Running(None, f"http://127.0.0.1:{listener.getsockname()[1]}", [])
    try:
        yield running
    finally:
        running.close()
        edge.is_draining = True
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def replica(tmp_path_factory) -> Iterator[Running]:
    with in_thread("dummy", tmp_path_factory.mktemp("replica"), limits=LIMITS) as server:
        yield server


def test_keys_are_checked_at_the_edge_before_anything_else(replica: Running) -> None:
    servers = Servers({"a": replica.url})
    with edge_before(servers, api_keys=["sk-one"], cors_origins=["https://example.org"]) as edge:
        refused = edge.http.post(
            "/v1/audio/speech", content=b"not even JSON", headers={"Origin": "https://example.org"}
        )
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
        assert refused.headers["access-control-allow-origin"] == "https://example.org"
        assert refused.headers["x-request-id"]
        headers = {"Authorization": "Bearer sk-one"}
        assert edge.http.post("/v1/audio/speech", json={"input": "Hi."}, headers=headers).status_code == 200
        assert edge.http.get("/health").status_code == 200


def test_pages_of_other_origins_and_large_bodies_are_refused_at_the_edge(replica: Running) -> None:
    with edge_before(Servers({"a": replica.url}), max_body_bytes=1000) as edge:
        other = edge.http.post("/v1/audio/speech", json={"input": "Hi."}, headers={"Origin": "https://evil.example"})
        assert (other.status_code, other.json()["error"]["code"]) == (403, "forbidden_origin")
        assert edge.http.post("/v1/audio/speech", json={"input": "x" * 2000}).status_code == 413


def test_clients_of_elevenlabs_choose_a_model_by_its_id(replica: Running, tmp_path: Path) -> None:
    own = {"model_aliases": ["other"], "voice_aliases": {"Rachel": "high"}}
    with (
        in_thread("dummy", tmp_path, limits=LIMITS, server=own) as other,
        edge_before(Servers({"a": replica.url}), ("dummy", "other"), {"other": Servers({"b": other.url})}) as edge,
    ):

        def speak(path: str, **fields) -> int:
            return edge.http.post(path, json={"text": "Hi.", **fields}).status_code

        speech, dialogue = "/v1/text-to-speech/Rachel", [{"text": "Hi.", "voice_id": "Rachel"}]
        for kind in ("", "/stream", "/with-timestamps", "/stream/with-timestamps"):
            assert speak(f"{speech}{kind}", model_id="other") == 200
            assert speak(f"{speech}{kind}") == speak(f"{speech}{kind}", model_id="eleven_v3") == 404
        for kind in ("", "/stream"):
            assert speak(f"/v1/text-to-dialogue{kind}", inputs=dialogue, model_id="other") == 200
            assert speak(f"/v1/text-to-dialogue{kind}", inputs=dialogue) == 404
        listed = [voice["voice_id"] for voice in edge.http.get("/v1/voices").json()["voices"]]
        assert listed == ["low", "high", "Rachel"]
        told = edge.http.get("/v1/audio/speech/unknown")
        assert told.status_code == 404


def test_the_times_of_words_go_through_the_edge(replica: Running) -> None:
    path = "/v1/text-to-speech/low/stream-input?output_format=pcm_16000&sync_alignment=true"
    with (
        edge_before(Servers({"a": replica.url})) as edge,
        connect(f"ws{edge.url.removeprefix('http')}{path}", proxy=None) as socket,
    ):
        for text in ("Hello ", "there.", ""):
            socket.send(json.dumps({"text": text}))
        messages = []
        with suppress(ConnectionClosed):
            while True:
                messages.append(json.loads(socket.recv(timeout=20)))
    spoken = [char for message in messages if message.get("alignment") for char in message["alignment"]["chars"]]
    assert "".join(spoken) == "Hello there. "


def test_an_idle_connection_makes_room_at_the_edge(replica: Running) -> None:
    with (
        edge_before(Servers({"a": replica.url}), max_connections=4) as edge,
        ExitStack() as stack,
    ):
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", edge.port))) for _ in range(12)]
        assert edge.speak().status_code == 200
        closed = [raw for raw in idle if select.select([raw], [], [], 0)[0]]
        assert closed == idle[:9]  # 4 are open: the last three, and the one that spoke


def test_no_request_is_sent_on_a_connection_that_a_replica_is_closing(tmp_path: Path) -> None:
    """A request that changes something is not sent twice, so it would fail."""
    keep_alive = {"keep_alive_s": 0.4}
    with (
        in_thread("dummy", tmp_path, limits=LIMITS, server=keep_alive) as replica,
        edge_before(Servers({"a": replica.url}), **keep_alive) as edge,
    ):
        for pause_s in np.linspace(0.32, 0.44, 13):
            answer = httpx2.delete(f"{edge.url}/v1/audio/voices/nobody", trust_env=False)
            assert answer.status_code == 404
            time.sleep(pause_s)


@pytest.mark.slow
def test_a_client_that_is_idle_for_a_minute_finds_its_connection_again(replica: Running) -> None:
    ask = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        edge_before(Servers({"a": replica.url})) as edge,
        socket.create_connection(("127.0.0.1", edge.port), timeout=20) as raw,
    ):
        for pause_s in (60, 0):
            raw.sendall(ask)
            assert raw.recv(2**16).startswith(b"HTTP/1.1 200")
            time.sleep(pause_s)


def test_a_request_goes_past_a_replica_that_is_gone(replica: Running) -> None:
    with edge_before(Servers({"gone": GONE, "here": replica.url})) as edge:
        for number in range(8):
            answer = edge.http.post("/v1/audio/speech", json={"input": "Hi."}, headers={"X-Session-Id": str(number)})
            assert answer.status_code == 200


def test_who_asks_for_a_model_without_replicas_waits_and_only_so_many_do(replica: Running) -> None:
    servers = Servers({})
    with edge_before(servers) as edge:
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(edge.speak()))
        waiting.start()
        assert servers.woken.wait(10)
        second = edge.speak()
        assert (second.status_code, second.json()["error"]["code"]) == (429, "queue_full")
        assert int(second.headers["retry-after"]) >= 1
        servers.urls["a"] = replica.url
        waiting.join(10)
        assert [answer.status_code for answer in answers] == [200]


@pytest.mark.slow
def test_a_cold_start_is_bounded() -> None:
    with edge_before(Servers({})) as edge:
        started_s = time.monotonic()
        late = edge.speak()
        assert (late.status_code, late.json()["error"]["code"]) == (503, "unavailable")
        assert 4 < time.monotonic() - started_s < 20


def test_an_edge_that_drains_finishes_what_runs(replica: Running) -> None:
    with ExitStack() as leaving:
        with edge_before(Servers({"a": replica.url})) as edge:
            body = {"input": "x" * 450, "response_format": "pcm"}
            answer = leaving.enter_context(httpx2.stream("POST", f"{edge.url}/v1/audio/speech", json=body, timeout=30))
            parts = answer.iter_bytes()
            heard = [len(next(parts))]
            listening = threading.Thread(target=lambda: heard.extend(map(len, parts)))
            listening.start()
        listening.join(30)
    assert sum(heard) == 450 * 3840


@contextmanager
def heard_headers() -> Iterator[tuple[str, list[list[str]]]]:
    """A replica that answers 404 to everything, and keeps the headers that say who asks."""
    heard = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers.get_all("X-Rhapsode-Client"))
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", heard
        finally:
            server.shutdown()
            thread.join()


def test_a_replica_is_told_who_asks_and_clients_cannot_say_so_themselves() -> None:
    forged = {"X-Rhapsode-Client": "secret-of-a 192.0.2.1"}
    with heard_headers() as (url, heard), edge_before(Servers({"a": url}), trusted_proxies=["127.0.0.2"]) as edge:
        edge.http.post("/v1/audio/speech", json={"input": "Hi."}, headers={**forged, "X-Forwarded-For": "192.0.2.1"})
        edge.http.get("/v1/audio/voices/ada/embedding", headers=forged)
        with suppress(InvalidStatus):
            connect(edge.socket_url, additional_headers=forged, proxy=None)
        proxied = httpx2.HTTPTransport(local_address="127.0.0.2")
        with httpx2.Client(base_url=edge.url, transport=proxied) as http:
            http.post("/v1/audio/speech", json={"input": "Hi."}, headers={"X-Forwarded-For": "192.0.2.1"})
    assert heard == [["secret-of-a 127.0.0.1"]] * 3 + [["secret-of-a 192.0.2.1"]]


@pytest.mark.slow
def test_a_listener_is_heard_soon_beside_clients_that_never_read_through_the_edge(tmp_path: Path) -> None:
    with (
        in_thread("dummy", tmp_path, limits=test_fair.ROOM, edge_secret="secret-of-a") as server,
        edge_before(Servers({"a": server.url})) as edge,
    ):
        test_fair.listen_beside(edge, test_fair.attack_from_elsewhere, test_fair.HEARD_S + IN_BUFFERS_S)


@pytest.mark.parametrize("source", [pytest.param("127.0.0.2", marks=pytest.mark.slow), "127.0.1.{}"])
def test_forty_connections_of_others_that_never_read_keep_nobody_waiting(tmp_path: Path, source: str) -> None:
    limits = test_fair.ROOM | {"max_concurrency": 32, "max_queue": 64}
    with (
        in_thread("dummy", tmp_path, limits=limits, edge_secret="secret-of-a") as server,
        edge_before(Servers({"a": server.url})) as edge,
        ExitStack() as held,
    ):
        for number in range(40):
            held.enter_context(test_fair.post(edge, source.format(number + 1)))
        test_fair.await_load(edge, "slots_in_use", 32)
        assert test_fair.first_audio_s(edge) < test_fair.HEARD_S + IN_BUFFERS_S


@pytest.mark.parametrize("addresses", [["127.0.0.2"] * 4, test_uploads.OTHERS[:4]])
def test_unfinished_uploads_through_the_edge_refuse_nobody_else(tmp_path: Path, addresses: list[str]) -> None:
    sizes = {"max_body_bytes": test_uploads.LARGEST, "max_upload_bytes": test_uploads.LARGEST}
    with (
        in_thread(write(tmp_path / "checkpoint"), tmp_path, limits=LIMITS, edge_secret="secret-of-a") as server,
        edge_before(Servers({"a": server.url}), **sizes) as edge,
    ):
        waiting = [test_uploads.unfinished(edge, address, test_uploads.LARGEST) for address in addresses]
        with test_uploads.held(waiting):
            test_uploads.check_nobody_is_refused(edge, test_uploads.OWN)


def test_clients_behind_the_edge_share_the_queue_as_they_would_without_it(tmp_path: Path) -> None:
    limits = {"max_concurrency": 1, "max_queue": 2, "max_text_chars": 5000, "max_positions": 4096}
    with (
        in_thread("dummy", tmp_path, limits=limits, edge_secret="secret-of-a") as server,
        edge_before(Servers({"a": server.url})) as edge,
        ExitStack() as held,
    ):
        greedy = [held.enter_context(test_fair.post(edge, "127.0.0.2")) for _ in range(3)]
        test_fair.await_load(edge, "queue_depth", 2)
        modest = held.enter_context(test_fair.post(edge, "127.0.0.1", input="Hi."))  # before the slot is taken away
        assert greedy[2].recv(12) == b"HTTP/1.1 429"
        assert modest.recv(12) == b"HTTP/1.1 200"
