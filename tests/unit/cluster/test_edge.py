"""The edge in front of real servers, without Ray: a stand-in for it says which servers there are."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx2
import pytest

from e2e.serve.running import Running, in_thread
from rhapsode.cluster.edge import Edge
from rhapsode.cluster.edge_server import EdgeServer
from rhapsode.cluster.fleet import Fleet, ModelFleet
from rhapsode.cluster.report import ReplicaReport
from rhapsode.config.cluster import read_cluster
from rhapsode.serve.server import listen

LIMITS = {"max_concurrency": 4, "max_positions": 1024}
GONE = "http://127.0.0.1:9"


class Servers:
    """Says which servers there are, as Ray does."""

    def __init__(self, urls: dict[str, str]) -> None:
        self.urls = urls
        self.woken = threading.Event()

    async def reports(self) -> list[ReplicaReport]:
        return [ReplicaReport(name, url, 0, 4, ("low", "high"), True) for name, url in self.urls.items()]

    async def wake(self) -> bool:
        self.woken.set()
        while not self.urls:
            await asyncio.sleep(0.05)
        return True


@contextmanager
def edge_before(servers: Servers, **server) -> Iterator[Running]:
    config = read_cluster({"models": {"dummy": {}}, "server": server, "cold_start_s": 5, "max_waiting": 1}, env={})
    edge = Edge(config, Fleet({"dummy": ModelFleet("dummy", servers, config.cold_start_s, config.max_waiting)}))
    listener = listen("127.0.0.1", 0)
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
